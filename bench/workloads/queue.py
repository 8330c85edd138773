"""W5: enqueue, claim, complete; each of the three is a commit of its own."""

from __future__ import annotations

from functools import partial
from typing import Final

from bench import entries, wire
from bench.contender import Entry
from bench.crew import Crew, span_s
from bench.measure import Bar, Row, Series, row
from bench.remote import Remote, leave_all
from bench.rounds import Rounds
from bench.stand import Stand

BAR: Final = Bar("at least", 0.4)
SIZES: Final = (1, 10)
ALONE_BATCHES: Final = 5
"""How many times more batches one session alone does, so that a round is long enough."""
Rates = dict[tuple[Entry, int], Series]


def run(stand: Stand, seconds: float) -> list[Row]:
    plain = [entries.FLOOR, *([entries.OURS] if stand.has_ours else [])]
    group = [entries.GROUP, *([entries.OURS_ASYNC] if stand.has_ours else [])]
    locked = [entries.LOCKED, *([entries.OURS_ASYNC] if stand.has_ours else [])]
    alone, many = stand.busy[:1], stand.busy
    return [
        *measure(stand, seconds / 3, plain, alone, "1 session"),
        *measure(stand, seconds / 3, group, many, f"{len(many)} sessions"),
        *measure_crews(stand, seconds / 3, locked),
    ]


def measure(
    stand: Stand, seconds: float, found: list[Entry], sessions: list[int], who: str
) -> list[Row]:
    """One process each."""
    remotes: dict[Entry, Remote] = {}
    rates = {(entry, size): Series() for size in SIZES for entry in found}
    batches = stand.sizes.queue_batches * (1 if len(sessions) > 1 else ALONE_BATCHES)
    try:
        started = stand.start_all([(entry, f"queue-{entry.key}") for entry in found])
        for remote in started:
            remotes[remote.entry] = remote
        for entry in found:
            remotes[entry].ask(wire.Create(sessions))
            # Leases are taken here, before any clock runs.
            remotes[entry].ask(wire.Jobs(sessions, 1, 1))
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        for number in rounds:
            for entry, size in rounds.order(list(rates)):
                answer = remotes[entry].ask(wire.Jobs(sessions, batches, size))
                rates[entry, size].add([answer.count / span_s([answer])], number)
    finally:
        leave_all(list(remotes.values()))
    return rows_of(who, rates)


def measure_crews(stand: Stand, seconds: float, found: list[Entry]) -> list[Row]:
    """Several processes on one file, each with the queues of its own sessions."""
    crews: dict[Entry, Crew] = {}
    rates = {(entry, size): Series() for size in SIZES for entry in found}
    batches = stand.sizes.queue_batches
    try:
        for entry in found:
            crews[entry] = Crew(stand, entry, f"queues-{entry.key}")
            crews[entry].ask(partial(jobs, 1, 1))
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        for number in rounds:
            for entry, size in rounds.order(list(rates)):
                answers = crews[entry].ask(partial(jobs, batches, size))
                done = sum(one.count for one in answers)
                rates[entry, size].add([done / span_s(answers)], number)
        who = crews[found[0]].described
    finally:
        for crew in crews.values():
            crew.leave()
    return rows_of(who, rates)


def jobs(batches: int, size: int, sessions: list[int]) -> wire.Jobs:
    return wire.Jobs(sessions, batches, size)


def rows_of(who: str, rates: Rates) -> list[Row]:
    floors = {size: (entry, rates[entry, size]) for entry, size in reversed(rates)}
    return [
        row(
            "W5",
            f"queue, {who}, batches of {size}",
            entry.title,
            "items/s",
            rates[entry, size],
            floor=(floors[size][0].title, floors[size][1]),
            bar=BAR if entry.kind == "ours" else None,
        )
        for entry, size in rates
    ]
