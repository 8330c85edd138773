"""W5: enqueue, claim, complete; each of the three is a commit of its own."""

from __future__ import annotations

from typing import Final

from bench import entries, wire
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.remote import Remote, leave_all
from bench.rounds import Rounds
from bench.stand import Stand

BAR: Final = Bar("at least", 0.4)
SIZES: Final = (1, 10)
ALONE_BATCHES: Final = 5
"""How many times more batches one session alone does, so that a round is long enough."""
NOTE: Final = "one session's queue; take across sessions comes with a later release"


def run(stand: Stand, seconds: float) -> list[Row]:
    plain = [entries.FLOOR, *([entries.OURS] if stand.has_ours else [])]
    group = [entries.GROUP, *([entries.OURS_ASYNC] if stand.has_ours else [])]
    alone, many = stand.busy[:1], stand.busy
    return [
        *measure(stand, seconds / 2, plain, alone, "1 session"),
        *measure(stand, seconds / 2, group, many, f"{len(many)} sessions"),
    ]


def measure(
    stand: Stand, seconds: float, found: list[Entry], sessions: list[int], who: str
) -> list[Row]:
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
                took = answer.ended_s - answer.started_s
                rates[entry, size].add([answer.count / took], number)
    finally:
        leave_all(list(remotes.values()))
    return [
        row(
            "W5",
            f"queue, {who}, batches of {size}",
            entry.title,
            "items/s",
            rates[entry, size],
            floor=(found[0].title, rates[found[0], size]),
            bar=BAR if entry.kind == "ours" else None,
            note=NOTE if entry.kind == "ours" else "",
        )
        for entry, size in rates
    ]
