"""P9: counts, statistics and usage of a session of 100 and of 100,000 messages."""

from __future__ import annotations

from typing import Final

from bench import big, wire
from bench.measure import Row, Series, row
from bench.postgres import bars, entries
from bench.postgres.place import url
from bench.postgres.stand import PostgresStand
from bench.rounds import Rounds
from bench.workloads.stats import CALLS, CASES

NAME: Final = "big"


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    if not stand.has_ours:
        return []
    build(stand)
    held = {big.SMALL: big.SMALL_MESSAGES, big.BIG: stand.sizes.big_messages}
    series = {(case, number): Series() for case in CASES for number in held}
    remote = stand.start(entries.OURS, NAME)
    try:
        for case, number in series:
            remote.ask(wire.Timed(case, [number, held[number]], 1))
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
            bar = bars.STATS if number == big.BIG else None
            where = f"{title}, {messages:,} messages"
            mine = series[case, number]
            rows.append(row("P9", where, entries.OURS.title, "ms", mine, floor=small, bar=bar))
    return rows


def build(stand: PostgresStand) -> None:
    """Many messages per commit: how it was written does not matter here."""
    from ledgerstone import Store

    stand.say(f"building a database of {stand.sizes.big_messages:,} messages")
    with Store.open(url(stand.path(NAME))) as store:
        big.write(store, stand.work.turns, stand.sizes.big_messages)
    stand.settle(NAME)
