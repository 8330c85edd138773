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
ALT: Final = "how many times the floor each contender takes; the table has the numbers"


def write(report: Report, page: Path) -> None:
    """Replace what stands between the marks; ValueError for a page without them."""
    text = page.read_text(encoding="utf-8")
    picture = page.with_suffix(".svg")
    new = between(text, section(report, picture.name))
    picture.write_text(chart.draw(report), encoding="utf-8")
    page.write_text(new, encoding="utf-8")


def section(report: Report, picture: str) -> str:
    parts = [f"![{ALT}]({picture})", table.markdown(report.rows), *report.remarks()]
    return "\n\n".join([*parts, "\n".join(report.peer_lines())]).rstrip()


def between(text: str, new: str) -> str:
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"
