"""W1: one commit at a time, to sessions that hold 0, 100 and 1000 turns."""

from __future__ import annotations

import time
from typing import Final

from bench import entries, machine, wire
from bench.contender import Entry
from bench.measure import Bar, Row, Series, over, row
from bench.remote import ContenderFailed
from bench.rounds import Rounds
from bench.stand import Stand

COMMITS: Final = 6
ROUNDS_MAX: Final = 150
PEER_ROUNDS_MAX: Final = 30
PEERS_SHARE: Final = 0.5
SYNCS: Final = 3

BLOCKING: Final = {"first": Bar("at most", 1.3), "deepest": Bar("at most", 1.2)}
ASYNC: Final = Bar("at most", 1.3)
GROWTH: Final = Bar("at most", 1.15)

Cases = dict[tuple[int, str], Series]


def run(stand: Stand, seconds: float) -> list[Row]:
    stand.build()
    found = contenders(stand)
    depths = depths_of(stand)
    cases, probe = measured(stand, seconds, found)
    there = [entry for entry in found if entry.key in stand.remotes]
    rows = [row("W1", "fdatasync of one page", "the disk itself", "ms", probe)]
    for depth in depths:
        bar = BLOCKING.get({depths[0]: "first", depths[-1]: "deepest"}.get(depth, ""))
        rows += [
            lone_row(cases, depth, entry, bar) for entry in there if (depth, entry.key) in cases
        ]
    return rows + growth_rows(stand, cases, depths[-1])


def depths_of(stand: Stand) -> tuple[int, ...]:
    return (0, stand.sizes.shallow_depth, stand.sizes.deep_depth)


def measured(stand: Stand, seconds: float, found: list[Entry]) -> tuple[Cases, Series]:
    """Everybody in turn at every depth, and the disk itself between them."""
    cases: Cases = {}
    probe = Series()
    depths = depths_of(stand)
    peers = len(stand.peers_there) * len(depths) or 1
    rounds = Rounds(
        seconds,
        least=stand.sizes.least_rounds,
        peer_least=stand.sizes.peer_rounds,
        most=ROUNDS_MAX,
        allowance_s=seconds * PEERS_SHARE / peers,
    )
    for number in rounds:
        # A shared disk changes its speed within a run; without this line nobody would know.
        probe.add(machine.syncs_ms(stand.directory, SYNCS))
        for depth in depths:
            fresh = stand.fresh(COMMITS) if depth == 0 else []
            for entry in rounds.order(found):
                if entry.key in stand.remotes and takes_part(stand, rounds, entry, depth):
                    samples = commits(stand, rounds, entry, depth, fresh)
                    if samples:
                        cases.setdefault((depth, entry.key), Series()).add(samples, number)
    return cases, probe


def contenders(stand: Stand) -> list[Entry]:
    floors = [entries.FLOOR, entries.FLOOR_AGAIN, entries.GROUP]
    ours = [entries.OURS, entries.OURS_ASYNC] if stand.has_ours else []
    return [*floors, *ours, *stand.peers_there]


def takes_part(stand: Stand, rounds: Rounds, entry: Entry, depth: int) -> bool:
    if entry.kind != "peer":
        return True
    if depth == stand.sizes.deep_depth and not stand.has_deep(entry):
        return False
    # More rounds would make a session of 100 turns one of 200.
    return rounds.number < PEER_ROUNDS_MAX and not rounds.sits_out((entry.key, depth))


def commits(
    stand: Stand, rounds: Rounds, entry: Entry, depth: int, fresh: list[int]
) -> list[float]:
    remote = stand.remotes[entry.key]
    start = time.monotonic()
    try:
        if depth == 0:
            remote.ask(wire.Create(fresh))
        numbers = fresh or stand.numbers(entry, depth, COMMITS)
        samples = remote.ask(wire.Commits(numbers)).samples_ms
    except ContenderFailed as error:
        stand.drop(entry, error)
        return []
    rounds.spend((entry.key, depth), time.monotonic() - start)
    return samples


def lone_row(cases: Cases, depth: int, entry: Entry, blocking: Bar | None) -> Row:
    """The async store is held against the floor with a thread, everybody else without."""
    least = entries.GROUP if entry is entries.OURS_ASYNC else entries.FLOOR
    bar = {entries.OURS: blocking, entries.OURS_ASYNC: ASYNC}.get(entry)
    return row(
        "W1",
        f"lone commit, H = {depth}",
        entry.title,
        "ms",
        cases[depth, entry.key],
        floor=(least.title, cases[depth, least.key]),
        bar=bar,
        noise=entry is entries.FLOOR_AGAIN,
    )


def growth_rows(stand: Stand, cases: Cases, deepest: int) -> list[Row]:
    """Deep over fresh, round by round; the file's own growth is the floor's, not ours."""

    def grown(entry: Entry) -> Series:
        return over(cases[deepest, entry.key], cases[0, entry.key])

    pairs = [(entries.FLOOR_AGAIN, entries.FLOOR)]
    if stand.has_ours:
        pairs += [(entries.OURS, entries.FLOOR), (entries.OURS_ASYNC, entries.GROUP)]
    pairs += [(peer, entries.FLOOR) for peer in stand.peers_there if stand.has_deep(peer)]
    return [
        row(
            "W1",
            f"growth H = 0 to {deepest}",
            mine.title,
            "x",
            grown(mine),
            floor=(least.title, grown(least)),
            bar=GROWTH if mine.kind == "ours" else None,
            noise=mine is entries.FLOOR_AGAIN,
        )
        for mine, least in pairs
        if (deepest, mine.key) in cases
    ]
