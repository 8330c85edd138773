"""Lists of sessions and sums of usage in one statement are those that the handlers find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ledgerstone import Store, Usage
from ledgerstone.clock import ManualClock
from ledgerstone.codec import encode_json
from ledgerstone.commands import Query
from ledgerstone.commands.sessions import (
    CountSessions,
    DeleteSession,
    ListSessions,
    PurgeSession,
    SessionFilter,
)
from ledgerstone.commands.usage import SummariseUsage
from ledgerstone.engines.sqlite.backend import SqliteBackend, open_sqlite
from ledgerstone.engines.sqlite.own_queries import OWN
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.records.usage import Cost
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now

SESSIONS = 120
QUERIES = 300
ORDERS = ("-updated", "updated", "-created", "created", "id", "-id")


@pytest.fixture
def backend(tmp_path: Path, seed: int) -> Iterator[SqliteBackend]:
    clock, random = ManualClock(), Random(seed)
    opened = open_sqlite(str(tmp_path / "store.db"), clock=clock)
    with Store(opened, clock=clock) as store:
        for n in random.sample(range(SESSIONS), SESSIONS):
            store.sessions.create(
                id=f"s{n:03}",
                user=random.choice(["ada", "ben", None]),
                app=random.choice(["desk", "web"]),
                parent=None if n == 1 else random.choice([None, "s001"]),
                parent_missing="keep",
                metadata=random.choice([None, {"a": 1}]),
            )
            clock.advance(random.choice([0, 0, 0.01, 0.2]))
        for n in random.sample(range(SESSIONS), SESSIONS // 2):
            store.sessions.update(f"s{n:03}", status=random.choice(["paused", "active"]))
        for n in random.sample(range(SESSIONS), SESSIONS // 6):
            opened.write(DeleteSession(tenant="default", id=f"s{n:03}"))
        yield opened


def answers(backend: SqliteBackend, query: Query[Any]) -> tuple[Any, Any]:
    """Of the statement, and of the handler."""

    def both(reader: Any) -> tuple[Any, Any]:
        kind = type(query)
        found = [run_now(one[kind](Tx(reader.rows, 0), query)) for one in (OWN, HANDLERS)]
        return found[0], found[1]

    return backend._find_out(both)


def filters(random: Random, times: list[int]) -> SessionFilter:
    def maybe(*values: Any) -> Any:
        return random.choice(values) if random.random() < 0.25 else None

    return SessionFilter(
        user=maybe("ada", "ben", "eve"),
        app=maybe("desk"),
        status=maybe("paused", "active"),
        parent=maybe("s001", "s002"),
        deleted=random.random() < 0.3,
        created_after_us=maybe(*times),
        created_before_us=maybe(*times),
        metadata_equals=maybe(encode_json({"a": 1}, "filter")),
        metadata_contains=maybe({"a": 1}),
    )


def test_both_ways_give_the_same(backend: SqliteBackend, seed: int) -> None:
    random, seen = Random(seed), 0
    store = Store(backend)
    every = list(store.sessions.list(deleted=True, limit=SESSIONS).items)
    times = [one.created_us for one in every]
    for _ in range(QUERIES):
        where, order = filters(random, times), random.choice(ORDERS)
        one = random.choice(every)
        key = {"updated": one.updated_us, "created": one.created_us, "id": 0}
        after = random.choice([None, (key[order.removeprefix("-")], one.id)])
        query = ListSessions(
            tenant="default",
            where=where,
            order=order,
            after=after,
            limit=random.choice([1, 5, 50]),
            offset=random.choice([0, 0, 3]),
            total=random.random() < 0.3,
        )
        mine, reference = answers(backend, query)
        assert mine == reference, query
        seen += len(mine.items)
        counted, wanted = answers(backend, CountSessions(tenant="default", where=where))
        assert counted == wanted, where
    assert seen > QUERIES


def test_sums_are_the_same(backend: SqliteBackend, seed: int) -> None:
    random, seen = Random(seed), 0
    store = Store(backend)
    moments = [0, 5, 86_400 * 10**6, 1 << 60]
    for n in random.sample(range(SESSIONS), 60):
        session = f"s{n:03}"
        found = store.sessions.get(session)
        if found is not None and found.deleted_us is None:
            for _ in range(random.choice([1, 3])):
                cost = random.choice([None, Cost(7), Cost(1 << 40, "EUR")])
                store.usage.record(session, random.choice("mn"), Usage(1 << 30, 5), cost=cost)
    backend.write(PurgeSession(tenant="default", id="s001"))  # Its children go on naming it.
    store.sessions.purge("s001")
    for _ in range(QUERIES):
        query = SummariseUsage(
            tenant="default",
            by=tuple(random.sample(("session", "user", "day", "model"), random.randrange(4))),
            since_us=random.choice([None, *moments]),
            until_us=random.choice([None, *moments]),
            user=random.choice([None, None, "ada"]),
        )
        mine, reference = answers(backend, query)
        assert mine == reference, query
        seen += len(mine)
    assert seen > QUERIES
