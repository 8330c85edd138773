"""P2: all messages of a deep session as typed objects; the last 50 only."""

from __future__ import annotations

from typing import Final

import msgspec

from bench import wire
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.postgres import bars, entries
from bench.postgres.stand import PostgresStand
from bench.rounds import Rounds
from bench.stand import READ, SHALLOW_FROM
from bench.workloads.resume import LAST_COUNT, LASTS, LOADS, PEER_CALLS, PEERS_SHARE, Cases, read

FLOORS: Final = (entries.POOL, entries.POOL_AGAIN, entries.BLOCKING)


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    stand.build()
    depth = stand.sizes.deep_depth
    asks = {
        "all": wire.Timed("load", [READ], LOADS),
        "last": wire.Timed("last", [READ, LAST_COUNT], LASTS),
        "last of few": wire.Timed("last", [SHALLOW_FROM, LAST_COUNT], LASTS),
    }
    ours = [entries.OURS, entries.OURS_ASYNC] if stand.has_ours else []
    deep = [entry for entry in stand.peers_there if stand.has_deep(entry)]
    found = [*FLOORS, *ours, *deep]
    series: Cases = {(case, entry.key): Series() for case in asks for entry in found}
    rounds = Rounds(
        seconds,
        least=stand.sizes.least_rounds,
        peer_least=stand.sizes.peer_rounds,
        allowance_s=seconds * PEERS_SHARE / (len(found) * len(asks)),
    )
    for number in rounds:
        for entry in rounds.order(found):
            for case, ask in asks.items():
                if entry.kind == "peer" and rounds.sits_out((entry.key, case)):
                    continue
                if entry.kind != "ours" and case == "last of few":
                    continue
                times = PEER_CALLS if entry.kind == "peer" else ask.times
                asked = msgspec.structs.replace(ask, times=times)
                wanted = depth * entry.per_turn if case == "all" else LAST_COUNT
                samples = read(stand, rounds, entry, case, asked, wanted)
                if samples:
                    series[case, entry.key].add(samples, number)
    there = [entry for entry in found if entry.key in stand.remotes]
    return [
        *case_rows("all", f"load {depth * 4:,} messages", there, series, bars.LOAD),
        *case_rows("last", f"load the last {LAST_COUNT}", there, series, bars.LAST),
        *flat_rows(stand, there, series),
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


def flat_rows(stand: PostgresStand, there: list[Entry], series: Cases) -> list[Row]:
    """The last 50 of many against the last 50 of few: flat in the length of the history."""
    few, many = stand.sizes.shallow_depth, stand.sizes.deep_depth
    return [
        row(
            "P2",
            f"growth of the last {LAST_COUNT}, H = {few} to {many}",
            entry.title,
            "ms",
            series["last", entry.key],
            floor=(f"at H = {few}", series["last of few", entry.key]),
            bar=bars.LAST_FLAT,
        )
        for entry in there
        if entry.kind == "ours"
    ]
