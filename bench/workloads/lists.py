"""W8: the newest 50 sessions of a user, in a store of a thousand and of a million sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bench import entries, wire
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.remote import Remote, leave_all
from bench.rounds import Rounds
from bench.stand import Stand

FEW: Final = 1000
LISTED: Final = 50
CALLS: Final = 10
BAR: Final = Bar("at most", 1.5)


Prepare = Callable[[Any, int], Remote]


def run(stand: Stand, seconds: float) -> list[Row]:
    return compared("W8", stand, seconds, entries.OURS, prepared, BAR)


def compared(
    name: str, stand: Stand, seconds: float, ours: Entry, prepare: Prepare, bar: Bar
) -> list[Row]:
    """A large store against a small one, in turn."""
    if not stand.has_ours:
        return []
    counts = (FEW, stand.sizes.listed)
    series = {count: Series() for count in counts}
    remotes: dict[int, Remote] = {}
    try:
        for count in counts:
            remotes[count] = prepare(stand, count)
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
            name,
            f"newest {LISTED} of a user, {count:,} sessions",
            ours.title,
            "ms",
            series[count],
            floor=floor,
            bar=bar if count != FEW else None,
            note="every second session is the user's",
        )
        for count in counts
    ]


def prepared(stand: Stand, count: int) -> Remote:
    """The store, its list checked: a fast list of the wrong sessions would be no news."""
    from bench import many
    from ledgerstone import Store

    stand.say(f"building a store of {count:,} sessions")
    name = f"many-{count}"
    many.build(stand.path(name), count, stand.work.turn(0))
    with Store.open(str(stand.path(name))) as store:
        found = [one.id for one in store.sessions.list(user=many.USER, limit=LISTED).items]
    if found != many.newest(count, LISTED):
        raise RuntimeError(f"a wrong list of {count} sessions: {found[:3]} ...")
    return stand.start(entries.OURS, name)
