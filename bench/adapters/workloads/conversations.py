"""A5: a conversation of 100 turns is saved after the next turn, and loaded."""

from __future__ import annotations

from bench import wire
from bench.adapters import bars
from bench.adapters import entries as known
from bench.adapters.field import check, commits, measured
from bench.adapters.stand import AdapterStand
from bench.measure import Row, row
from bench.stand import READ

SAVE = "save after a turn"
LOAD = "load"
LOADS = 2
PEER = known.CONVERSATIONS
OURS = known.LEDGER_CONVERSATIONS
AGAIN = known.LEDGER_CONVERSATIONS_AGAIN
ON_POSTGRES = known.PG_LEDGER_CONVERSATIONS


def run(stand: AdapterStand, seconds: float) -> list[Row]:
    there = stand.filled(stand.there([PEER, OURS, AGAIN, ON_POSTGRES]))
    try:
        cases = measured(
            stand,
            there,
            {
                SAVE: lambda entry, number: commits(stand, entry, number),
                LOAD: lambda entry, number: wire.Timed("load", [READ], LOADS),
            },
            seconds,
        )
        check(stand, there, cases, SAVE)
        there = [entry for entry in there if entry.key in stand.remotes]
    finally:
        stand.leave(there)
    rows = []
    for case, bar in ((SAVE, bars.SAVE), (LOAD, bars.LOAD)):
        for entry in there:
            of = OURS if entry == AGAIN else PEER
            floor = (of.title, cases[case, of.key]) if of in there and of != entry else None
            backend = "PostgreSQL" if entry == ON_POSTGRES else "SQLite"
            rows.append(
                row(
                    "A5",
                    f"{case}, H = {stand.sizes.shallow_depth}, {backend}",
                    entry.title,
                    "ms",
                    cases[case, entry.key],
                    floor=floor,
                    bar=bar if floor and entry == OURS else None,
                    noise=entry == AGAIN,
                    note="the peer is a file" if floor and entry == ON_POSTGRES else "",
                )
            )
    return rows
