"""P9: counts, statistics and usage of a session of 100 and of 100,000 messages."""

from __future__ import annotations

from typing import Final

from bench import big
from bench.measure import Row
from bench.postgres import bars, entries
from bench.postgres.place import url
from bench.postgres.stand import PostgresStand
from bench.workloads.stats import compared

NAME: Final = "big"


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    if not stand.has_ours:
        return []
    build(stand)
    return compared("P9", stand, seconds, entries.OURS, NAME, bars.STATS)


def build(stand: PostgresStand) -> None:
    """Many messages per commit: how it was written does not matter here."""
    from ledgerstone import Store

    stand.say(f"building a database of {stand.sizes.big_messages:,} messages")
    with Store.open(url(stand.path(NAME))) as store:
        big.write(store, stand.work.turns, stand.sizes.big_messages)
    stand.settle(NAME)
