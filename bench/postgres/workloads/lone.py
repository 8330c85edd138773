"""P1: one commit at a time, to sessions that hold 0, 100 and 1000 turns."""

from __future__ import annotations

from typing import Final

from bench.contender import Entry
from bench.measure import Bar, Row, Series, over, row
from bench.postgres import bars, entries
from bench.postgres.stand import PostgresStand
from bench.workloads.lone import Cases, depths_of, measured

FLOORS: Final = (entries.POOL, entries.POOL_AGAIN, entries.BARE, entries.BLOCKING)


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    stand.build()
    ours = [entries.OURS, entries.OURS_ASYNC] if stand.has_ours else []
    found = [*FLOORS, *ours, *stand.peers_there]
    depths = depths_of(stand)
    cases, probe = measured(stand, seconds, found)
    there = [entry for entry in found if entry.key in stand.remotes]
    rows = [row("P1", "fdatasync of one page", "the disk itself", "ms", probe)]
    for depth in depths:
        for entry in there:
            if (depth, entry.key) in cases:
                rows += lone_rows(cases, depth, entry)
    return rows + growth_rows(stand, cases, depths[-1])


def lone_rows(cases: Cases, depth: int, entry: Entry) -> list[Row]:
    """Ours is held against the pool, and against a bare connection of the same driver."""
    against: list[tuple[Entry, Bar | None]] = [(entries.POOL, None)]
    if entry.kind == "ours":
        bare = entries.BLOCKING if entry == entries.OURS else entries.BARE
        against = [(entries.POOL, bars.LONE), (bare, bars.LONE_BARE)]
    return [
        row(
            "P1",
            f"lone commit, H = {depth}",
            entry.title,
            "ms",
            cases[depth, entry.key],
            floor=(least.title, cases[depth, least.key]),
            bar=bar,
            noise=entry == entries.POOL_AGAIN,
        )
        for least, bar in against
    ]


def growth_rows(stand: PostgresStand, cases: Cases, deepest: int) -> list[Row]:
    """Deep over fresh, round by round; what the database's own growth costs is the floor's."""

    def grown(entry: Entry) -> Series:
        return over(cases[deepest, entry.key], cases[0, entry.key])

    pairs = [(entries.POOL_AGAIN, entries.POOL)]
    if stand.has_ours:
        pairs += [(entries.OURS, entries.BLOCKING), (entries.OURS_ASYNC, entries.POOL)]
    pairs += [(peer, entries.POOL) for peer in stand.peers_there if stand.has_deep(peer)]
    return [
        row(
            "P1",
            f"growth H = 0 to {deepest}",
            mine.title,
            "x",
            grown(mine),
            floor=(least.title, grown(least)),
            bar=bars.GROWTH if mine.kind == "ours" else None,
            noise=mine == entries.POOL_AGAIN,
        )
        for mine, least in pairs
        if (deepest, mine.key) in cases
    ]
