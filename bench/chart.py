"""The chart: how far from the floor each contender is, one line per case, on one log axis.

Written by hand as SVG, so that it needs no library. Text takes the reader's colour scheme; the
dots have colours that stand on white and on black, and shapes for those who see no colours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from bench.measure import Row
from bench.report import Report
from bench.table import number

WIDTH: Final = 920
LEFT: Final = 270
RIGHT: Final = 28
LINE: Final = 30
LEGEND_LINE: Final = 20
LEGEND_COLUMNS: Final = 3
TITLE_Y: Final = 24
RADIUS: Final = 5.5

FLOOR_STYLE: Final = ("#7d8590", "bar")
STYLES: Final = {
    "ours, blocking": ("#1f883d", "circle"),
    "ours, async": ("#2da44e", "ring"),
    "ours": ("#1f883d", "circle"),
    "ours, blocking, vectors='pgvector'": ("#1f883d", "circle"),
    "openai-agents SQLiteSession": ("#0969da", "square"),
    "openai-agents AdvancedSQLiteSession": ("#54aeff", "square"),
    "LangGraph AsyncSqliteSaver": ("#bf3989", "diamond"),
    "LangGraph AsyncSqliteSaver, exit": ("#bf3989", "diamond"),
    "LangGraph AsyncSqliteSaver, default": ("#e85aad", "diamond"),
    "agno SqliteDb": ("#bc6c00", "triangle"),
    "ADK SqliteSessionService": ("#cf222e", "wedge"),
    "openai-agents SQLAlchemySession": ("#0969da", "square"),
    "LangGraph AsyncPostgresSaver, exit": ("#bf3989", "diamond"),
    "LangGraph AsyncPostgresSaver, default": ("#e85aad", "diamond"),
    "agno AsyncPostgresDb": ("#bc6c00", "triangle"),
    "ADK DatabaseSessionService": ("#cf222e", "wedge"),
    "procrastinate": ("#6e7781", "square"),
    "dbos": ("#6e7781", "triangle"),
}
# Where two variants are one and the same: drawn like one of them, without a line of the legend.
BOTH: Final = ("ours", "ours, blocking, vectors='pgvector'", "LangGraph AsyncSqliteSaver")
# Ours against ours, and what is no time at all.
NOT_CHARTED: Final = ("W8", "W9", "W10", "P8", "P9", "P10", "P13", "P14", "RSS")
# Cases whose ratio is no cost in terms of a floor, or is the floor against itself.
LEFT_OUT: Final = ("growth", "against the", "recall", "p99 and errors", "fdatasync")

HEAD: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" role="img" aria-labelledby="title desc" font-family="system-ui, sans-serif">
<title id="title">{title}</title>
<desc id="desc">{desc}</desc>
<style>
text {{ fill: #1f2328; font-size: 13px; }}
.small {{ font-size: 11px; fill: #59636e; }}
.big {{ font-size: 16px; font-weight: 600; }}
.grid {{ stroke: #8c959f; stroke-opacity: 0.3; }}
.floor {{ stroke: #7d8590; stroke-width: 2; }}
@media (prefers-color-scheme: dark) {{
  text {{ fill: #e6edf3; }}
  .small {{ fill: #9198a1; }}
}}
</style>"""
TITLE: Final = "Times the floor: further left is better"


def draw(report: Report) -> str:
    """An SVG document of this report."""
    cases = charted(report.rows)
    shown = {name for costs in cases.values() for name in costs}
    names = [name for name in STYLES if name in shown and name not in BOTH]
    top = TITLE_Y + 14 + LEGEND_LINE * (math.ceil((len(names) + 1) / LEGEND_COLUMNS) + 1)
    height = top + LINE * len(cases) + 44
    axis = Axis(cases)
    lines = [
        HEAD.format(width=WIDTH, height=height, title=escape(TITLE), desc=escape(described(cases))),
        f'<text class="big" x="16" y="{TITLE_Y}">{escape(TITLE)}</text>',
        *legend(names),
        *grid(axis, top, height - 34),
    ]
    for place, (case, costs) in enumerate(cases.items()):
        lines += drawn_case(axis, case, costs, top + LINE * place + LINE / 2)
    where = f"{report.machine.short()}; {report.kind} run, seed {report.seed}"
    lines.append(f'<text class="small" x="16" y="{height - 8}">{escape(where)}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


Costs = dict[str, tuple[float, Row]]


def charted(rows: Sequence[Row]) -> dict[str, Costs]:
    """Per case the cost of each contender: times the floor, rates turned around."""
    cases: dict[str, Costs] = {}
    for row in rows:
        wanted = row.contender in STYLES and row.ratio and row.verdict != "noise"
        if not wanted or row.workload in NOT_CHARTED:
            continue
        if any(word in row.case for word in LEFT_OUT) or row.ratio is None:
            continue
        cost = 1 / row.ratio if row.unit.endswith("/s") else row.ratio
        of = f", of the {row.floor}" if row.workload in ("W6", "P6") else ""
        cases.setdefault(f"{row.workload} {row.case}{of}", {})[row.contender] = (cost, row)
    return cases


class Axis:
    """From a cost to a place on the line, by decades."""

    def __init__(self, cases: dict[str, Costs]) -> None:
        costs = [cost for costs in cases.values() for cost, _ in costs.values()] or [1.0]
        self.low = min(0.5, *costs) if len(costs) > 1 else 0.5
        self.high = max(10.0, *costs) * 1.15

    def x(self, cost: float) -> float:
        share = math.log(cost / self.low) / math.log(self.high / self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    @property
    def ticks(self) -> list[float]:
        steps = [base * 10.0**power for power in range(-1, 5) for base in (1, 2, 5)]
        found = [step for step in steps if self.low <= step <= self.high]
        return found if len(found) < 12 else [step for step in found if math.log10(step) % 1 == 0]


def legend(names: Sequence[str]) -> list[str]:
    lines = []
    width = (WIDTH - 32) / LEGEND_COLUMNS
    for place, name in enumerate(["floor", *names]):
        x = 22 + width * (place % LEGEND_COLUMNS)
        y = TITLE_Y + 22 + LEGEND_LINE * (place // LEGEND_COLUMNS)
        colour, shape = STYLES.get(name, FLOOR_STYLE)
        lines.append(mark(shape, colour, x, y))
        lines.append(f'<text x="{x + 12:.1f}" y="{y + 4:.1f}">{escape(name)}</text>')
    return lines


def grid(axis: Axis, top: float, bottom: float) -> list[str]:
    lines = []
    for tick in axis.ticks:
        x = axis.x(tick)
        kind = "floor" if tick == 1 else "grid"
        lines.append(
            f'<line class="{kind}" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
            f'<text class="small" x="{x:.1f}" y="{top - 6}" text-anchor="middle">{tick:g}x</text>'
        )
    return lines


def drawn_case(axis: Axis, case: str, costs: Costs, y: float) -> list[str]:
    lines = [
        f'<text x="16" y="{y + 4:.1f}">{escape(case)}</text>',
        f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{WIDTH - RIGHT}" y2="{y}"/>',
    ]
    # The best last, so that it lies on top.
    for name, (cost, row) in sorted(costs.items(), key=lambda item: -item[1][0]):
        colour, shape = STYLES[name]
        told = f"{name}: {number(row.median)} {row.unit}, {cost:.2f}x the floor's cost"
        lines.append(mark(shape, colour, axis.x(cost), y, told))
    return lines


def mark(shape: str, colour: str, x: float, y: float, told: str = "") -> str:
    """A dot of one of the shapes; what it says when it is pointed at."""
    r = RADIUS
    points = {
        "diamond": [(x, y - r - 1), (x + r + 1, y), (x, y + r + 1), (x - r - 1, y)],
        "triangle": [(x, y - r - 1), (x + r, y + r - 1), (x - r, y + r - 1)],
        "wedge": [(x, y + r + 1), (x + r, y - r + 1), (x - r, y - r + 1)],
        "square": box(x, y, r - 1, r - 1),
        "bar": box(x, y, 1, r),
    }
    inside = f"<title>{escape(told)}</title>" if told else ""
    if shape in points:
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points[shape])
        return f'<polygon points="{path}" fill="{colour}">{inside}</polygon>'
    paint = f'fill="{colour}"'
    if shape == "ring":
        paint = f'fill="none" stroke="{colour}" stroke-width="2.5"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" {paint}>{inside}</circle>'


def box(x: float, y: float, wide: float, high: float) -> list[tuple[float, float]]:
    left, right, top, bottom = x - wide, x + wide, y - high, y + high
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def described(cases: dict[str, Costs]) -> str:
    """The whole chart in words, for those who do not see it."""
    sentences = []
    for case, costs in cases.items():
        told = [f"{name} {cost:.2f}" for name, (cost, _) in sorted(costs.items())]
        sentences.append(f"{case}: {', '.join(told)}.")
    return " ".join(["Cost as a multiple of the floor's, per workload.", *sentences])
