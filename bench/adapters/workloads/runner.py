"""A3: one turn of a Runner (user, tool call, tool result, answer) on a session of 100 turns."""

from __future__ import annotations

from bench.adapters import bars
from bench.adapters import entries as known
from bench.adapters.field import check, commits, excess_row, measured
from bench.adapters.stand import AdapterStand
from bench.measure import Row, row

CASE = "turn"
FLOORS = (known.ITEMS, known.ITEMS_AGAIN)
SESSIONS = {
    "SQLite": (known.RUNNER, known.LEDGER_RUNNER),
    "PostgreSQL": (known.PG_RUNNER, known.PG_LEDGER_RUNNER),
}


def run(stand: AdapterStand, seconds: float) -> list[Row]:
    sessions = [entry for pair in SESSIONS.values() for entry in pair]
    there = stand.filled(stand.there([*FLOORS, *sessions]))
    try:
        asks = {CASE: lambda entry, number: commits(stand, entry, number)}
        cases = measured(stand, there, asks, seconds)
        check(stand, there, cases, CASE)
        found = [entry for entry in there if entry.key in stand.remotes]
    finally:
        stand.leave(there)
    if known.ITEMS not in found:
        return []
    depth, floor = stand.sizes.shallow_depth, cases[CASE, known.ITEMS.key]
    rows = []
    for entry in found:
        backend = next((one for one, pair in SESSIONS.items() if entry in pair), "")
        rows.append(
            row(
                "A3",
                f"turn of a Runner, H = {depth}" + (f", {backend}" if backend else ""),
                entry.title,
                "ms",
                cases[CASE, entry.key],
                floor=(known.ITEMS.title, floor),
                noise=entry == known.ITEMS_AGAIN,
            )
        )
    for backend, (peer, mine) in SESSIONS.items():
        case = f"session's time of it, H = {depth}, {backend}"
        series = {entry: cases[CASE, entry.key] for entry in (peer, mine) if entry in found}
        against = (peer, series[peer]) if peer in series else None
        for entry, found_ms in series.items():
            is_ours = entry == mine
            rows.append(
                excess_row(
                    "A3",
                    case,
                    entry,
                    found_ms,
                    floor,
                    peer=against if is_ours else None,
                    bar=bars.RUNNER if is_ours else None,
                )
            )
    return rows
