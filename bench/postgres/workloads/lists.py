"""P8: the newest 50 sessions of a user, in a store of a thousand and of a million sessions."""

from __future__ import annotations

from bench import wire
from bench.measure import Row
from bench.postgres import bars, entries
from bench.postgres.place import url
from bench.postgres.stand import PostgresStand
from bench.remote import Remote
from bench.workloads.lists import LISTED, compared


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    return compared("P8", stand, seconds, entries.OURS, prepared, bars.LISTS)


def prepared(stand: PostgresStand, count: int) -> Remote:
    """The store, its list checked: a fast list of the wrong sessions would be no news."""
    from bench import many as expected
    from bench.postgres import many
    from ledgerstone import Store

    stand.say(f"building a database of {count:,} sessions")
    name = f"many-{count}"
    many.build(stand, name, count)
    with Store.open(url(stand.path(name))) as store:
        found = [one.id for one in store.sessions.list(user=expected.USER, limit=LISTED).items]
    if found != expected.newest(count, LISTED):
        raise RuntimeError(f"a wrong list of {count} sessions: {found[:3]} ...")
    remote = stand.start(entries.OURS, name)
    remote.ask(wire.Timed("newest", ["ada", LISTED], 1))
    return remote
