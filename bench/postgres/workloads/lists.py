"""P8: the newest 50 sessions of a user, in a store of a thousand and of a million sessions."""

from __future__ import annotations

from bench import wire
from bench.measure import Row, Series, row
from bench.postgres import bars, entries
from bench.postgres.place import url
from bench.postgres.stand import PostgresStand
from bench.remote import Remote, leave_all
from bench.rounds import Rounds
from bench.workloads.lists import CALLS, FEW, LISTED


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    if not stand.has_ours:
        return []
    counts = (FEW, stand.sizes.listed)
    series = {count: Series() for count in counts}
    remotes: dict[int, Remote] = {}
    try:
        for count in counts:
            remotes[count] = prepared(stand, count)
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        ask = wire.Timed("newest", ["ada", LISTED], CALLS)
        for number in rounds:
            for count in rounds.order(counts):
                series[count].add(remotes[count].ask(ask).samples_ms, number)
    finally:
        leave_all(list(remotes.values()))
    floor = (f"at {FEW:,} sessions", series[FEW])
    return [
        row(
            "P8",
            f"newest {LISTED} of a user, {count:,} sessions",
            entries.OURS.title,
            "ms",
            series[count],
            floor=floor,
            bar=bars.LISTS if count != FEW else None,
            note="every second session is the user's",
        )
        for count in counts
    ]


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
