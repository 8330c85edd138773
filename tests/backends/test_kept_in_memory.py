"""What a process keeps between calls has a bound, and nothing of a purged session stays in it."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import Store, user
from ledgerstone.api_sync import nearest
from ledgerstone.engines.sqlite import backend as sqlite
from ledgerstone.engines.sqlite import read_only as sqlite_read_only
from ledgerstone.tables.schema import OWNED
from ledgerstone.tables.sessions import STUBS
from tests.backends.places import quick_disk

ROUNDS = 5


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as made:
        yield made


def parts(store: Store) -> Any:
    """The backend behind a store, whose inner parts have no public name."""
    return store._handle.backend


def make_and_purge(store: Store) -> None:
    """A session that enqueues for itself and for another one, purged with its work."""
    session = store.sessions.create()
    store.work.enqueue(session, {"task": 1})
    with store.turns.begin(session) as turn:
        turn.user("hello")
        turn.enqueue({"task": 2}, session="other")
    store.sessions.purge(session)


def test_the_rows_of_a_purged_session_go_with_it() -> None:
    with Store.open("memory://") as store:
        store.sessions.create(id="other")
        for _ in range(ROUNDS):
            make_and_purge(store)
        tables = parts(store)._engine.rows.tables
        assert len(tables[STUBS]) == ROUNDS
        assert {row.number for table in OWNED for row in tables[table].values()} == {1}


def test_what_is_known_of_a_purged_session_goes_with_its_journal(folder: Path) -> None:
    with Store.open(f"file://{folder}/store") as store:
        store.sessions.create(id="other")
        make_and_purge(store)
        books = parts(store)._books
        before = len(books.mentions), len(books.journals)
        for _ in range(ROUNDS):
            make_and_purge(store)
        assert (len(books.mentions), len(books.journals)) == before
        given = books.rows.given
    with Store.open(f"file://{folder}/store") as store:
        assert parts(store)._books.rows.given == given
        assert (len(parts(store)._books.mentions), len(parts(store)._books.journals)) == before


def test_a_purged_journal_waits_for_no_flush(folder: Path) -> None:
    with Store.open(f"file://{folder}/store", durability="process") as store:
        for n in range(ROUNDS):
            store.messages.append(f"s{n}", user("hello"), create=True)
        waiting = parts(store)._engine._unflushed
        before = len(waiting)
        for n in range(ROUNDS):
            store.sessions.purge(f"s{n}")
        # The store's own journal, which says so, is flushed when the store is closed.
        assert len(waiting) == before - ROUNDS + 1


def test_a_burst_of_readers_leaves_few_connections(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "IDLE_READERS_MAX", 3)
    with Store.open(folder / "store.db") as store:
        store.messages.append("s", user("hello"), create=True)
        backend = parts(store)
        burst = [backend._take_reader() for _ in range(20)]
        for reader in burst:
            backend._give_back(reader)
        assert len(backend._idle) == 3
        assert store.messages.count("s") == 1


def test_a_burst_of_readers_leaves_few_connections_when_reading_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_read_only, "IDLE_READERS_MAX", 3)
    with Store.open(folder / "store.db") as store:
        store.messages.append("s", user("hello"), create=True)
    with Store.open(folder / "store.db", read_only=True) as store:
        assert store.messages.count("s") == 1
        backend = parts(store)

        def nested(depth: int) -> None:
            if depth:
                backend._use(backend._view, lambda _: nested(depth - 1))

        nested(20)
        assert len(backend._idle) == 3
        assert store.messages.count("s") == 1


def test_many_small_vector_indexes_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "INDEXES_MAX", 3)
    with Store.open("memory://") as store:
        for n in range(6):
            one = store.for_tenant(f"tenant-{n}")
            one.embeddings.put([n, 1], model="m")
            assert len(one.embeddings.search([1, 1], model="m")) == 1
            assert len(store.for_tenant("tenant-0").embeddings.search([1, 1], model="m")) == 1
        kept = [tenant for tenant, _ in store._handle.equipment.indexes]
        assert kept == ["tenant-4", "tenant-5", "tenant-0"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["memory", "file", "sqlite", "postgres"])
def test_closed_stores_leave_nothing(
    folder: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    url = {
        "memory": "memory://",
        "file": f"file://{folder}/store",
        "sqlite": str(folder / "store.db"),
    }.get(backend) or request.getfixturevalue("postgres_url")

    def use() -> None:
        with Store.open(url) as store:
            store.messages.append("s", user("hello"), create=True)

    use()
    before = ours()
    for _ in range(ROUNDS):
        use()
    assert ours() - before == Counter()


def ours() -> Counter[str]:
    """Living objects of this package, by type."""
    gc.collect()
    names = (str(type(one)) for one in gc.get_objects())
    return Counter(name for name in names if "'ledgerstone." in name)
