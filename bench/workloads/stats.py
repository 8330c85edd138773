"""W9: counts and usage of a session, short and long; they are kept, not counted."""

from __future__ import annotations

from typing import Final

from bench import big, entries, wire
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
    held = {big.SMALL: big.SMALL_MESSAGES, big.BIG: stand.sizes.big_messages}
    series = {(case, number): Series() for case in CASES for number in held}
    remote = stand.start(entries.OURS, big.OURS_NAME)
    try:
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        for place in rounds:
            for case, number in rounds.order(list(series)):
                ask = wire.Timed(case, [number, held[number]], CALLS)
                series[case, number].add(remote.ask(ask).samples_ms, place)
    finally:
        remote.leave()
    rows = []
    for case, title in CASES.items():
        small = (f"at {big.SMALL_MESSAGES} messages", series[case, big.SMALL])
        for number, messages in held.items():
            bar = BAR if number == big.BIG else None
            where = f"{title}, {messages:,} messages"
            mine = series[case, number]
            rows.append(row("W9", where, entries.OURS.title, "ms", mine, floor=small, bar=bar))
    return rows
