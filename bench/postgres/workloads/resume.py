"""P2: all messages of a deep session as typed objects; the last 50 only."""

from __future__ import annotations

from typing import Final

from bench.contender import Entry
from bench.measure import Bar, Row, row
from bench.postgres import bars, entries
from bench.postgres.stand import PostgresStand
from bench.workloads.resume import LAST_COUNT, Cases, flat_rows, measured

FLOORS: Final = (entries.POOL, entries.POOL_AGAIN, entries.BLOCKING)


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    stand.build()
    depth = stand.sizes.deep_depth
    ours = [entries.OURS, entries.OURS_ASYNC] if stand.has_ours else []
    deep = [entry for entry in stand.peers_there if stand.has_deep(entry)]
    found = [*FLOORS, *ours, *deep]
    series = measured(stand, seconds, found)
    there = [entry for entry in found if entry.key in stand.remotes]
    return [
        *case_rows("all", f"load {depth * 4:,} messages", there, series, bars.LOAD),
        *case_rows("last", f"load the last {LAST_COUNT}", there, series, bars.LAST),
        *flat_rows("P2", stand, there, series, bars.LAST_FLAT),
    ]


def case_rows(case: str, title: str, there: list[Entry], series: Cases, bar: Bar) -> list[Row]:
    rows = []
    for entry in there:
        if not series[case, entry.key].rounds:
            continue
        least = entries.BLOCKING if entry == entries.OURS else entries.POOL
        rows.append(
            row(
                "P2",
                title,
                entry.title,
                "ms",
                series[case, entry.key],
                floor=(least.title, series[case, least.key]),
                bar=bar if entry.kind == "ours" else None,
                noise=entry == entries.POOL_AGAIN,
            )
        )
    return rows
