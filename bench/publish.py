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
ALT: Final = "how many times the floor each contender takes; the table has the numbers"


def write(report: Report, page: Path) -> None:
    """Replace what stands between the marks; ValueError for a page without them.

    Each half that was run has its own marks and chart, and leaves the other alone.
    """
    text = page.read_text(encoding="utf-8")
    halves = (
        (report.on_sqlite(), page.with_suffix(".svg"), BEGIN, END),
        (
            report.on_postgres(),
            page.with_name(f"{page.stem}-postgres.svg"),
            POSTGRES_BEGIN,
            POSTGRES_END,
        ),
    )
    for half, picture, begin, end in halves:
        if half.rows:
            text = between(text, section(half, picture.name), begin, end)
    for half, picture, _, _ in halves:
        if half.rows:
            picture.write_text(chart.draw(half), encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def section(report: Report, picture: str) -> str:
    parts = [f"![{ALT}]({picture})", table.markdown(report.rows), *report.remarks()]
    return "\n\n".join([*parts, "\n".join(report.peer_lines())]).rstrip()


def between(text: str, new: str, begin: str = BEGIN, end: str = END) -> str:
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no {begin} ... {end}")
    return f"{before}{begin}\n{new}\n{end}{after}"
