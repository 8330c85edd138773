"""Making and migrating the schema: races, other names, a transaction of the caller, plain SQL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import asyncpg
import psycopg
import pytest

from ledgerstone import Store, user
from ledgerstone.engines.postgres import functions as postgres_functions
from ledgerstone.engines.postgres import opening as postgres_schema
from ledgerstone.engines.postgres.admin import (
    amigrate_within,
    migrate_store,
    migrate_within,
    migration_script,
    versions,
)
from ledgerstone.engines.postgres.functions import functions, layout
from ledgerstone.errors import InvalidValue, NotSupported, SchemaTooNew
from ledgerstone.testing.servers.places import Places


def with_option(url: str, option: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{option}"


def works(url: str) -> None:
    """A store that takes a turn and shows it."""
    with Store.open(with_option(url, "migrate=no")) as store:
        store.messages.append("s", user("hello"), create=True)
        assert [message.text for message in store.messages.history("s")] == ["hello"]
        assert store.admin.verify().ok


def together(count: int, work: Callable[[], object]) -> list[object]:
    """What `count` threads got that began at once."""
    barrier, found = threading.Barrier(count), list[object]()

    def one() -> None:
        barrier.wait()
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_replicas_that_start_together_all_open(postgres_places: Places) -> None:
    url = postgres_places.blank()
    assert together(8, lambda: Store.open(url).close()) == [None] * 8
    works(url)


def test_two_schemas_of_one_database_are_two_stores(postgres_places: Places) -> None:
    url = postgres_places.blank()
    first, second = (with_option(url, f"schema={name}") for name in ("red", "blue"))
    for place in (first, second):
        Store.open(place).close()
        works(place)
    with Store.open(first) as store:
        store.sessions.purge("s")
    with Store.open(second) as store:
        assert store.messages.count("s") == 1


def test_versions_and_a_second_migration(postgres_places: Places) -> None:
    url = postgres_places.blank()
    found, wanted, ours = versions(url)
    assert (found, ours) == (0, False)
    assert wanted > 0
    assert migrate_store(url) == (0, wanted, False)
    assert migrate_store(url) == (wanted, wanted, True)
    assert versions(url) == (wanted, wanted, True)
    works(url)


def test_two_versions_side_by_side(
    postgres_places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same tables and other functions: nobody calls those of the other version unknowingly."""
    url = postgres_places.fresh()
    extra = "create or replace function ledger_extra() returns int language sql return 1;"
    other = (*functions(), extra)

    def become(texts: tuple[str, ...]) -> None:
        for module in (postgres_functions, postgres_schema):
            monkeypatch.setattr(module, "functions", lambda: texts)
        layout.cache_clear()

    with Store.open(url) as old:
        old.messages.append("s", user("old"), create=True)
        become(other)
        for place in (url, with_option(url, "migrate=no")):
            with pytest.raises(NotSupported, match="end its processes, then run `ledgerstone mig"):
                Store.open(place)
        old.messages.append("s", user("goes on"))
        assert versions(url)[2] is False
        assert "ledger_extra" in migration_script(url)
    assert migrate_store(url).ours is False
    assert versions(url).ours
    Store.open(url).close()
    monkeypatch.undo()
    layout.cache_clear()
    with pytest.raises(NotSupported, match="another version of ledgerstone"):
        Store.open(url)


def test_a_comment_makes_no_other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before, texts = layout(), functions()
    for text, same in (("-- A word.\n", True), ("select 1;\n", False)):
        more = (text, *texts)
        monkeypatch.setattr(postgres_functions, "functions", lambda more=more: more)
        layout.cache_clear()
        made = layout()
        layout.cache_clear()
        assert (made == before) is same


def test_the_printed_script_does_the_same(postgres_places: Places) -> None:
    url = with_option(postgres_places.blank(), "schema=by_hand")
    script = migration_script(url)
    assert script == migration_script(url, since=0)
    with psycopg.connect(url.partition("?")[0], autocommit=True) as connection:
        connection.execute(script.encode())
    works(url)
    assert migration_script(url).startswith("-- the schema has version")
    with pytest.raises(SchemaTooNew):
        migration_script(url, since=99)


def test_inside_a_transaction_of_the_caller(postgres_places: Places) -> None:
    url = postgres_places.blank()
    with psycopg.connect(url) as connection:
        connection.execute("create table mine (n int)")
        assert migrate_within(connection, "one") == 0
        assert connection.execute("show search_path").fetchone() == ('"$user", public',)
        connection.execute("insert into mine values (1)")
        connection.rollback()
    assert versions(with_option(url, "schema=one"))[0] == 0
    with psycopg.connect(url) as connection:
        migrate_within(connection, "one")
        migrate_within(connection, "two")
    for name in ("one", "two"):
        works(with_option(url, f"schema={name}"))
    with psycopg.connect(url) as connection, pytest.raises(InvalidValue):
        migrate_within(connection, 'x"; drop schema one')


def test_inside_a_transaction_of_asyncpg(postgres_places: Places) -> None:
    url = postgres_places.blank()

    async def attempt(*, keep: bool) -> None:
        connection = await asyncpg.connect(url)
        transaction = connection.transaction()
        await transaction.start()
        await amigrate_within(connection, "loop")
        await (transaction.commit() if keep else transaction.rollback())
        await connection.close()

    asyncio.run(attempt(keep=False))
    assert versions(with_option(url, "schema=loop"))[0] == 0
    asyncio.run(attempt(keep=True))
    works(with_option(url, "schema=loop"))
