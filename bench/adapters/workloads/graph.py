"""A1: one turn of a compiled graph (user, tool call, tool result, answer) at H = 100.

The loop itself is measured on a saver that only keeps Python objects, and subtracted: what is left
is the time of the saver. Cold is a saver that has seen nothing yet, as in a process that just
started; the store is open, as LangGraph's connection is.
"""

from __future__ import annotations

from bench.adapters import bars
from bench.adapters import entries as known
from bench.adapters.field import Cases, check, commits, excess_row, measured
from bench.adapters.stand import BACKENDS, AdapterStand
from bench.contender import Entry
from bench.measure import Row, row

CASE = "turn"
# By backend: LangGraph's own savers, blocking and async, and ours by (async, cold).
SAVERS = {
    "SQLite": ((known.SAVER, known.SAVER_ASYNC), known.LEDGER_SAVERS),
    "PostgreSQL": ((known.PG_SAVER, known.PG_SAVER_ASYNC), known.PG_LEDGER_SAVERS),
}


def run(stand: AdapterStand, seconds: float) -> list[Row]:
    rows: list[Row] = []
    for backend in BACKENDS:
        stock, ours = SAVERS[backend]
        wanted = stand.there([*known.GRAPH_FLOORS, *stock, *ours.values()])
        if not wanted:
            continue
        there = stand.filled(wanted)
        try:
            asks = {CASE: lambda entry, number: commits(stand, entry, number)}
            cases = measured(stand, there, asks, seconds / len(BACKENDS))
            check(stand, there, cases, CASE)
            found = [entry for entry in there if entry.key in stand.remotes]
            rows += turn_rows(stand, backend, found, cases)
            rows += saver_rows(stand, backend, found, cases)
        finally:
            stand.leave(there)
    return rows


def turn_rows(stand: AdapterStand, backend: str, there: list[Entry], cases: Cases) -> list[Row]:
    floor = (known.OBJECTS.title, cases[CASE, known.OBJECTS.key])
    return [
        row(
            "A1",
            f"turn of a graph, H = {stand.sizes.shallow_depth}, {backend}",
            entry.title,
            "ms",
            cases[CASE, entry.key],
            floor=floor,
            noise=entry == known.OBJECTS_AGAIN,
        )
        for entry in there
    ]


def saver_rows(stand: AdapterStand, backend: str, there: list[Entry], cases: Cases) -> list[Row]:
    """Each against the stock saver of its own colour."""
    case = f"saver's time of it, H = {stand.sizes.shallow_depth}, {backend}"
    stock, ours = SAVERS[backend]
    rows = []
    for is_async, peer in enumerate(stock):
        least = known.OBJECTS_ASYNC if is_async else known.OBJECTS
        floor = cases[CASE, least.key]
        if peer in there:
            rows.append(excess_row("A1", case, peer, cases[CASE, peer.key], floor))
        against = (peer, cases[CASE, peer.key]) if peer in there else None
        for cold in (False, True):
            mine = ours[bool(is_async), cold]
            bar = bars.SAVER_COLD if cold else bars.SAVER_WARM
            if mine in there:
                series = cases[CASE, mine.key]
                rows.append(excess_row("A1", case, mine, series, floor, peer=against, bar=bar))
    return rows
