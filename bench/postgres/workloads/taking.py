"""P10: a worker takes a session that has work, out of a hundred and out of a hundred thousand."""

from __future__ import annotations

from bench import wire
from bench.measure import Row, Series, row
from bench.postgres import bars, entries
from bench.postgres.place import url
from bench.postgres.stand import PostgresStand
from bench.remote import Remote, leave_all
from bench.rounds import Rounds
from bench.workloads.taking import FEW, LOOKS, SERVED


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    if not stand.has_ours:
        return []
    from bench.many import LATER

    asks = {
        "take and complete": wire.Timed("serve", [], SERVED, "requeue"),
        "look when nothing is due": wire.Timed("idle", [LATER], LOOKS),
    }
    counts = (FEW, stand.sizes.waiting)
    series = {(case, count): Series() for case in asks for count in counts}
    remotes: dict[int, Remote] = {}
    try:
        for count in counts:
            remotes[count] = prepared(stand, count)
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        for number in rounds:
            for case, count in rounds.order(list(series)):
                answer = remotes[count].ask(asks[case])
                series[case, count].add(answer.samples_ms, number)
    finally:
        leave_all(list(remotes.values()))
    return [
        row(
            "P10",
            f"{case}, {count:,} sessions",
            entries.OURS.title,
            "ms",
            series[case, count],
            floor=(f"at {FEW:,} sessions", series[case, FEW]),
            bar=bars.TAKING if count != FEW else None,
        )
        for case, count in series
    ]


def prepared(stand: PostgresStand, count: int) -> Remote:
    """The store, its line checked: whoever takes the wrong session fast has won nothing."""
    from bench import many as expected
    from bench.postgres import many
    from ledgerstone import Store

    stand.say(f"building a database of {count:,} sessions that have work")
    name = f"line-{count}"
    many.build_line(stand, name, count)
    with Store.open(url(stand.path(name))) as store:
        taken = store.work.take()
        if taken is None or taken.lease.session != expected.first_in_line(count):
            raise RuntimeError(f"a wrong session out of {count}: {taken}")
        store.work.abandon(taken.claim)
        store.leases.release(taken.lease)
    remote = stand.start(entries.OURS, name)
    remote.ask(wire.Timed("serve", [], 1, "requeue"))
    return remote
