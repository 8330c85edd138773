"""W9: counts and usage of a session, short and long; they are kept, not counted."""

from __future__ import annotations

from typing import Final

from bench import big, entries, wire
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.rounds import Rounds
from bench.stand import Stand

CALLS: Final = 20
BAR: Final = Bar("at most", 1.5)
CASES: Final = {
    "stats": "counts and usage (sessions.head)",
    "counted": "messages.count",
    "totals": "sessions.stats",
    "summary": "usage.summary per model and day",
}


def run(stand: Stand, seconds: float) -> list[Row]:
    if not stand.has_ours:
        return []
    big.build_ours(stand)
    return compared("W9", stand, seconds, entries.OURS, big.OURS_NAME, BAR)


def compared(
    name: str, stand: Stand, seconds: float, ours: Entry, place: str, bar: Bar
) -> list[Row]:
    """A long session against a short one in the same store, in turn."""
    held = {big.SMALL: big.SMALL_MESSAGES, big.BIG: stand.sizes.big_messages}
    series = {(case, number): Series() for case in CASES for number in held}
    remote = stand.start(ours, place)
    try:
        for case, number in series:
            remote.ask(wire.Timed(case, [number, held[number]], 1))
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        for turn in rounds:
            for case, number in rounds.order(list(series)):
                ask = wire.Timed(case, [number, held[number]], CALLS)
                series[case, number].add(remote.ask(ask).samples_ms, turn)
    finally:
        remote.leave()
    rows = []
    for case, title in CASES.items():
        small = (f"at {big.SMALL_MESSAGES} messages", series[case, big.SMALL])
        for number, messages in held.items():
            limit = bar if number == big.BIG else None
            where = f"{title}, {messages:,} messages"
            mine = series[case, number]
            rows.append(row(name, where, ours.title, "ms", mine, floor=small, bar=limit))
    return rows
