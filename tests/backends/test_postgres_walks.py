"""What commands read, counted by the server: no table is walked, whatever the planner promised.

The statements inside of functions cannot be explained from outside. The server counts for every
table how often it was read from end to end, and how many entries of indexes were read.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

from ledgerstone import Cost, Store, Usage, user
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.testing.servers.places import Places

ROUNDS = 40
READ_MAX = 40
"""Entries of indexes that one command may read, on average."""


class Counted(NamedTuple):
    walks: int
    read: int


def counted(url: str) -> Counted:
    """Walks of tables, and entries of indexes that were read, since the database was made."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            """select
                 (select sum(seq_scan) from pg_stat_user_tables
                   where schemaname = 'ledgerstone' and relname <> 'store'),
                 (select sum(idx_tup_read) from pg_stat_user_indexes
                   where schemaname = 'ledgerstone')"""
        ).fetchone()
    assert row is not None
    return Counted(int(row[0]), int(row[1]))


def live(store: Store, prefix: str) -> int:
    """Turns, usage, reads and work in sessions of their own; how many commands that was."""
    commands = 0
    for n in range(ROUNDS):
        name = f"{prefix}{n}"
        for part in range(3):
            turn = store.turns.begin(name, create=True)
            turn.add(user(f"hello {part}"))
            turn.use("m", Usage(3), cost=Cost(1))
            turn.commit()
        store.messages.list(name, limit=10)
        store.messages.last(name, 2)
        store.work.enqueue(name, {"do": n}, queue=prefix)
        taken = store.work.take(queue=prefix)
        assert taken is not None
        store.work.renew(taken.claim)
        turn = store.turns.begin(taken.lease)
        turn.add(user("done"))
        turn.complete(taken.claim)
        turn.commit(release=True)
        store.feed.read(session=name)
        commands += 10
    return commands


def check(url: str, prefix: str) -> None:
    """The store is opened before it is looked at: that may read what a command must not."""
    with Store.open(url) as store:
        live(store, f"{prefix}warm")
    before = counted(url)
    with Store.open(url, tenant="t1") as store:
        commands = live(store, prefix)
    after = counted(url)
    assert after.walks - before.walks == 0
    assert 0 < after.read - before.read < READ_MAX * commands


def test_a_young_store_is_not_walked(postgres_places: Places) -> None:
    check(postgres_places.fresh(), "young")


@pytest.mark.slow
def test_a_large_store_is_not_walked(postgres_places: Places) -> None:
    text = Path(__file__).with_name("large_store.sql").read_text("utf-8")
    url = postgres_places.fresh()
    with psycopg.connect(url, autocommit=True, options=parse_target(url).options) as filling:
        filling.execute(text.replace("{sessions}", "5000"))
    check(url, "large")
