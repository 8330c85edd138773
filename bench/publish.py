"""The report in the documentation: a table between two marks, and the chart beside the page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench import chart, table
from bench.remote import ROOT
from bench.report import Report

PAGE: Final = ROOT / "docs" / "performance.md"
CHART: Final = ROOT / "docs" / "performance.svg"
BEGIN: Final = "<!-- bench -->"
END: Final = "<!-- /bench -->"
POSTGRES_BEGIN: Final = "<!-- bench postgres -->"
POSTGRES_END: Final = "<!-- /bench postgres -->"
ADAPTERS_BEGIN: Final = "<!-- bench adapters -->"
ADAPTERS_END: Final = "<!-- /bench adapters -->"
ALT: Final = "how many times the floor each contender takes; the table has the numbers"


def write(report: Report, page: Path) -> None:
    """Replace what stands between the marks; ValueError for a page without them.

    Each part that was run has its own marks, and leaves the others alone. Two have a chart; the
    adapters have no floor in common to draw.
    """
    text = page.read_text(encoding="utf-8")
    parts: tuple[tuple[Report, Path | None, str, str], ...] = (
        (report.on_sqlite(), page.with_suffix(".svg"), BEGIN, END),
        (
            report.on_postgres(),
            page.with_name(f"{page.stem}-postgres.svg"),
            POSTGRES_BEGIN,
            POSTGRES_END,
        ),
        (report.of_adapters(), None, ADAPTERS_BEGIN, ADAPTERS_END),
    )
    for part, picture, begin, end in parts:
        if part.rows:
            text = between(text, section(part, picture.name if picture else ""), begin, end)
    for part, picture, _, _ in parts:
        if part.rows and picture:
            picture.write_text(chart.draw(part), encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def section(report: Report, picture: str) -> str:
    parts = [f"![{ALT}]({picture})"] if picture else []
    parts += [table.markdown(report.rows), *report.remarks()]
    return "\n\n".join([*parts, "\n".join(report.peer_lines())]).rstrip()


def between(text: str, new: str, begin: str = BEGIN, end: str = END) -> str:
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no {begin} ... {end}")
    return f"{before}{begin}\n{new}\n{end}{after}"
