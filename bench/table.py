"""The report: a rich table on a terminal, markdown elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.measure import Row

COLUMNS = (
    "",
    "case",
    "contender",
    "median",
    "p10-p90",
    "n",
    "x floor (p10-p90)",
    "quiet",
    "of",
    "bar",
    "",
)
DIGITS_BELOW = 10
STYLES = {"ok": "green", "missed": "red", "unclear": "yellow", "noise": "dim"}


def cells(row: Row) -> tuple[str, ...]:
    return (
        row.workload,
        row.case,
        row.contender,
        f"{number(row.median)} {row.unit}",
        f"{number(row.p10)}-{number(row.p90)}" if row.samples > 1 else "",
        str(row.samples) if row.samples > 1 else "",
        _ratio(row),
        times(row.quiet) if row.quiet is not None and row.samples > 1 else "",
        row.floor or "",
        row.bar or "",
        "; ".join(part for part in (row.verdict, row.note) if part),
    )


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < DIGITS_BELOW else f"{value:.1f}"


def markdown(rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(_plain(cell) for cell in cells(row)) + " |" for row in rows]
    return "\n".join(lines)


def _plain(cell: str) -> str:
    """An error message may hold anything; a cell of a table may not."""
    return " ".join(cell.replace("|", "/").split())


def show(rows: Sequence[Row], *, plain: bool) -> None:
    """Rich is a convenience here, never a need: without it the markdown is printed."""
    if plain or not sys.stdout.isatty():
        print(markdown(rows))
        return
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(markdown(rows))
        return
    table = Table(*COLUMNS)
    before = ""
    for row in rows:
        if before not in ("", row.workload):
            table.add_section()
        before = row.workload
        table.add_row(*cells(row), style=STYLES.get(row.verdict or "", ""))
    Console().print(table)


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return ""
    if row.ratio_p10 is None or row.ratio_p90 is None or row.samples == 1:
        return times(row.ratio)
    return f"{times(row.ratio)} ({times(row.ratio_p10)}-{times(row.ratio_p90)})"


def times(ratio: float) -> str:
    """Two digits after the point, or two that say something."""
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"
