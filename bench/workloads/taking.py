"""W10: a worker takes a session that has work, out of a hundred and out of a hundred thousand."""

from __future__ import annotations

from typing import Final

from bench import entries, wire
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.remote import Remote, leave_all
from bench.rounds import Rounds
from bench.stand import Stand
from bench.workloads.lists import Prepare

FEW: Final = 100
BAR: Final = Bar("at most", 1.5)
SERVED: Final = 20
LOOKS: Final = 50


def run(stand: Stand, seconds: float) -> list[Row]:
    return compared("W10", stand, seconds, entries.OURS, prepared, BAR)


def compared(
    name: str, stand: Stand, seconds: float, ours: Entry, prepare: Prepare, bar: Bar
) -> list[Row]:
    """A long line against a short one, in turn."""
    if not stand.has_ours:
        return []
    from bench import many

    asks = {
        "take and complete": wire.Timed("serve", [], SERVED, "requeue"),
        "look when nothing is due": wire.Timed("idle", [many.LATER], LOOKS),
    }
    counts = (FEW, stand.sizes.waiting)
    series = {(case, count): Series() for case in asks for count in counts}
    remotes: dict[int, Remote] = {}
    try:
        for count in counts:
            remotes[count] = prepare(stand, count)
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        for number in rounds:
            for case, count in rounds.order(list(series)):
                answer = remotes[count].ask(asks[case])
                series[case, count].add(answer.samples_ms, number)
    finally:
        leave_all(list(remotes.values()))
    return [
        row(
            name,
            f"{case}, {count:,} sessions",
            ours.title,
            "ms",
            series[case, count],
            floor=(f"at {FEW:,} sessions", series[case, FEW]),
            bar=bar if count != FEW else None,
        )
        for case, count in series
    ]


def prepared(stand: Stand, count: int) -> Remote:
    """The store, its line checked: whoever takes the wrong session fast has won nothing."""
    from bench import many
    from ledgerstone import Store

    stand.say(f"building a store of {count:,} sessions that have work")
    name = f"line-{count}"
    many.build_line(stand.path(name), count)
    with Store.open(str(stand.path(name))) as store:
        taken = store.work.take()
        if taken is None or taken.lease.session != many.first_in_line(count):
            raise RuntimeError(f"a wrong session out of {count}: {taken}")
        store.work.abandon(taken.claim)
        store.leases.release(taken.lease)
    remote = stand.start(entries.OURS, name)
    remote.ask(wire.Timed("serve", [], 1, "requeue"))
    return remote
