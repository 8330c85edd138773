"""P10: a worker takes a session that has work, out of a hundred and out of a hundred thousand."""

from __future__ import annotations

from bench import wire
from bench.measure import Row
from bench.postgres import bars, entries
from bench.postgres.place import url
from bench.postgres.stand import PostgresStand
from bench.remote import Remote
from bench.workloads.taking import compared


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    return compared("P10", stand, seconds, entries.OURS, prepared, bars.TAKING)


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
