"""A turn inside the application's own transaction: one commit for both, or none for either."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

from ledgerstone import AsyncStore, Store
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.errors import (
    InvalidValue,
    NotSupported,
    RevisionMoved,
    SessionNotFound,
    Timeout,
)
from ledgerstone.testing.servers.places import Places

HELLO = [{"role": "user", "content": "hello"}]
SETTINGS = "select current_setting(%s, true)"


def dsn(url: str) -> str:
    return parse_target(url).dsn


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with Store.open(postgres_url) as opened:
        opened.sessions.create(id="s")
        yield opened


@pytest.fixture
def connection(postgres_url: str, store: Store) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn(postgres_url)) as opened:
        opened.execute("create temporary table orders (id int primary key)")
        opened.commit()
        yield opened
        if not opened.closed:
            opened.rollback()


def texts(store: Store, session: str = "s") -> list[str]:
    return [message.text for message in store.messages.list(session)]


def orders(connection: psycopg.Connection) -> int:
    row = connection.execute("select count(*) from orders").fetchone()
    assert row is not None
    return int(row[0])


def test_their_commit_makes_it_durable(store: Store, connection: psycopg.Connection) -> None:
    connection.execute("insert into orders values (1)")
    answer = store.turns.commit("s", HELLO, id="turn-1", connection=connection)
    assert (answer.revision, answer.turn) == (1, "turn-1")
    assert not texts(store), "nobody sees it before the commit"
    connection.commit()
    assert texts(store) == ["hello"]
    assert orders(connection) == 1
    assert store.admin.verify().ok
    assert store.turns.commit("s", HELLO, id="turn-1").replayed


def test_their_rollback_takes_it_back(store: Store, connection: psycopg.Connection) -> None:
    store.turns.commit("s", HELLO)
    connection.execute("insert into orders values (1)")
    assert store.turns.commit("s", HELLO, id="turn-1", connection=connection).revision == 2
    connection.rollback()
    assert texts(store) == ["hello"]
    assert orders(connection) == 0
    connection.rollback()
    # What this process keeps in mind about the session is still right.
    assert store.turns.commit("s", HELLO, id="turn-1").revision == 2
    assert [entry.revision for entry in store.feed.read().entries] == [1, 2]


def test_a_turn_object_joins_as_well(store: Store, connection: psycopg.Connection) -> None:
    with connection.transaction():
        with store.turns.begin("new", create=True) as turn:
            turn.user("one")
            turn.state(step=1)
            turn.use("m", {"input": 3})
            turn.enqueue({"job": 1})
            turn.commit(connection=connection)
        store.turns.commit("s", HELLO, connection=connection)
    assert texts(store, "new") == ["one"]
    assert texts(store) == ["hello"]
    assert store.work.list("new")[0].payloads == [{"job": 1}]
    assert [entry.session for entry in store.feed.read().entries] == ["new", "s"]


def test_an_error_leaves_their_transaction_usable(
    store: Store, connection: psycopg.Connection
) -> None:
    connection.execute("insert into orders values (1)")
    with pytest.raises(SessionNotFound):
        store.turns.commit("nobody", HELLO, connection=connection)
    with pytest.raises(RevisionMoved):
        store.turns.commit("s", HELLO, expected_revision=7, connection=connection)
    with pytest.raises(InvalidValue):
        store.turns.commit("s", [{"role": "user", "content": "a", "id": "\ud800"}])
    store.turns.commit("s", HELLO, connection=connection)
    connection.commit()
    assert orders(connection) == 1
    assert texts(store) == ["hello"]


def test_nothing_of_ours_stays_on_their_connection(
    store: Store, connection: psycopg.Connection
) -> None:
    names = ("search_path", "statement_timeout", "ledgerstone.tenant", "synchronous_commit")

    def settings() -> list[object]:
        found = [connection.execute(SETTINGS, (name,)).fetchone() for name in names]
        return [row[0] or "" for row in found if row is not None]

    connection.execute("set search_path = pg_catalog, public")
    connection.execute("create temporary table sessions (id int)")
    connection.commit()
    before = settings()
    store.turns.commit("s", HELLO, connection=connection)
    assert settings() == before
    with pytest.raises(SessionNotFound):
        store.turns.commit("nobody", HELLO, connection=connection)
    assert settings() == before
    connection.commit()
    assert settings() == before
    assert texts(store) == ["hello"]
    row = connection.execute("select 5::numeric, 'a'::text, 7").fetchone()
    assert row is not None
    assert [type(value).__name__ for value in row] == ["Decimal", "str", "int"]


def test_their_own_readings_of_types_do_not_disturb(
    store: Store, connection: psycopg.Connection
) -> None:
    connection.adapters.register_loader("int8", psycopg.types.string.TextLoader)
    store.turns.commit("s", [{"role": "user", "content": "a\0b\x01"}], connection=connection)
    connection.commit()
    assert texts(store) == ["a\0b\x01"]


def test_a_neighbour_waits_only_for_the_same_session(
    store: Store, connection: psycopg.Connection
) -> None:
    store.sessions.create(id="other")
    store.turns.commit("s", HELLO, connection=connection)
    store.turns.commit("other", HELLO)
    waiting = threading.Thread(target=store.turns.commit, args=("s", HELLO))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    # Nor does the one that waits hold up the others of its process.
    store.turns.commit("other", HELLO)
    connection.commit()
    waiting.join(20)
    assert texts(store) == ["hello", "hello"]


def test_waiting_for_a_lock_ends_in_time(postgres_url: str, connection: psycopg.Connection) -> None:
    joiner = "&" if "?" in postgres_url else "?"
    with Store.open(f"{postgres_url}{joiner}statement_timeout_s=0.3") as store:
        with psycopg.connect(dsn(postgres_url)) as other:
            store.turns.commit("s", HELLO, connection=other)
            connection.execute("insert into orders values (1)")
            with pytest.raises(Timeout):
                store.turns.commit("s", HELLO, connection=connection)
            other.rollback()
        store.turns.commit("s", HELLO, connection=connection)
        connection.commit()
        assert orders(connection) == 1
        assert texts(store) == ["hello"]


def test_another_database_is_refused(
    store: Store, postgres_places: Places, connection: psycopg.Connection
) -> None:
    with psycopg.connect(dsn(postgres_places.fresh())) as other:
        with pytest.raises(InvalidValue, match="another database"):
            store.turns.commit("s", HELLO, connection=other)
        assert other.execute("select 1").fetchone() == (1,)


def test_a_connection_that_can_not_be_joined(store: Store, connection: psycopg.Connection) -> None:
    with pytest.raises(InvalidValue, match=r"psycopg.Connection expected, got str"):
        store.turns.commit("s", HELLO, connection="postgresql://here")
    connection.rollback()
    connection.autocommit = True
    with pytest.raises(InvalidValue, match="no transaction"):
        store.turns.commit("s", HELLO, connection=connection)
    connection.autocommit = False
    with pytest.raises(psycopg.Error):
        connection.execute("select 1 / 0")
    with pytest.raises(InvalidValue, match="has failed"):
        store.turns.commit("s", HELLO, connection=connection)
    connection.rollback()
    connection.close()
    with pytest.raises(InvalidValue, match="closed"):
        store.turns.commit("s", HELLO, connection=connection)


def test_other_backends_say_that_they_can_not(tmp_path: Path) -> None:
    for url in ("memory://", str(tmp_path / "a.db"), f"file://{tmp_path}/folder"):
        with Store.open(url) as store:
            store.sessions.create(id="s")
            with pytest.raises(NotSupported, match="postgresql://"):
                store.turns.commit("s", HELLO, connection=object())


def test_asyncpg_joins(postgres_url: str) -> None:
    async def play() -> None:
        async with AsyncStore.open(postgres_url) as store:
            await store.sessions.create(id="s")
            raw = await asyncpg.connect(dsn(postgres_url))
            try:
                with pytest.raises(InvalidValue, match="no transaction"):
                    await store.turns.commit("s", HELLO, connection=raw)
                path = await raw.fetchval("show search_path")
                async with raw.transaction():
                    await store.turns.commit("s", [*HELLO, *HELLO], connection=raw)
                    with pytest.raises(SessionNotFound):
                        await store.turns.commit("nobody", HELLO, connection=raw)
                    assert await raw.fetchval("show search_path") == path
                transaction = raw.transaction()
                await transaction.start()
                odd = [{"role": "user", "content": "a\0", "name": "\x01"}]
                await store.turns.commit("s", odd, connection=raw)
                await transaction.rollback()
                assert len(await store.messages.list("s")) == 2
                async with raw.transaction():
                    await store.turns.commit("s", odd, connection=raw)
                assert [one.text for one in await store.messages.list("s")][2:] == ["a\0"]
                with pytest.raises(InvalidValue, match="asyncpg"):
                    await store.turns.commit("s", HELLO, connection=object())
            finally:
                await raw.close()

    asyncio.run(play())


def test_a_connection_of_an_asyncpg_pool_joins(postgres_url: str) -> None:
    async def play() -> None:
        async with (
            AsyncStore.open(postgres_url) as store,
            asyncpg.create_pool(dsn(postgres_url), min_size=1, max_size=1) as pool,
        ):
            await store.sessions.create(id="s")
            async with pool.acquire() as raw, raw.transaction():
                await store.turns.commit("s", HELLO, connection=raw)
            assert len(await store.messages.list("s")) == 1

    asyncio.run(play())


def test_psycopg_on_a_loop_joins(postgres_url: str) -> None:
    async def play() -> None:
        async with (
            AsyncStore.open(postgres_url) as store,
            await psycopg.AsyncConnection.connect(dsn(postgres_url)) as raw,
        ):
            await store.sessions.create(id="s")
            await store.turns.commit("s", HELLO, connection=raw)
            with pytest.raises(SessionNotFound):
                await store.turns.commit("nobody", HELLO, connection=raw)
            await raw.commit()
            await store.turns.commit("s", HELLO, connection=raw)
            await raw.rollback()
            assert len(await store.messages.list("s")) == 1

    asyncio.run(play())
