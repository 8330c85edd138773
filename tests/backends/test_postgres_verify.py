"""Verify on PostgreSQL finds what was changed behind its back: chain, sums and schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import sql

from ledgerstone import Cost, InvalidValue, Store, Usage, user
from ledgerstone.testing.servers.places import Places


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    with Store.open(postgres_url) as made:
        turn = made.turns.begin("s", create=True)
        turn.add(user("hello", id="m1"))
        turn.commit()
        made.usage.record("s", "m", Usage(4), cost=Cost(3), id="u1")
        made.memories.put("notes", "k", {"a": 1})
        assert made.admin.verify().ok
        yield made


@pytest.fixture
def server(postgres_url: str, store: Store) -> Iterator[psycopg.Connection[Any]]:
    options = "-c search_path=ledgerstone"
    with psycopg.connect(postgres_url, autocommit=True, options=options) as connection:
        yield connection


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (r"update nodes set body = body || '\x20'", "link"),
        ("update nodes set parent = 7", "link"),
        ("delete from nodes", "link"),
        (r"update turns set hash = '\x00' where revision = 1", "link"),
        ("delete from turns where revision = 1", "revision"),
        ("update heads set messages = 9", "count"),
        ("update heads set updated_us = 9", "head"),
        ("update usage_days set input = 5", "usage"),
        ("delete from heads", "head"),
    ],
)
def test_a_changed_row_is_found(
    store: Store, server: psycopg.Connection[Any], change: str, kind: str
) -> None:
    server.execute(change)
    assert kind in {defect.kind for defect in store.admin.verify().defects}


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ("drop index nodes_label", "index nodes_label of nodes"),
        ("alter table heads alter column fence drop not null", "column fence of heads"),
        ("alter table documents drop column seal", "column seal of documents"),
    ],
)
def test_a_changed_schema_is_found(postgres_places: Places, change: str, place: str) -> None:
    url = postgres_places.fresh()
    with psycopg.connect(url, autocommit=True, options="-c search_path=ledgerstone") as server:
        with Store.open(url) as store:
            assert store.admin.verify(whole=True).ok
        server.execute(change)
        with Store.open(url) as store:
            defects = store.admin.verify(whole=True).defects
        assert [(one.kind, one.where) for one in defects] == [("schema", place)]


def test_a_trigger_of_somebody_else_is_found(postgres_places: Places) -> None:
    url = postgres_places.fresh()
    with psycopg.connect(url, autocommit=True, options="-c search_path=ledgerstone") as server:
        server.execute(
            "create trigger spy after update on heads execute function tsvector_update_trigger()"
        )
        server.execute("create index theirs on nodes (created_us)")
    with Store.open(url) as store:
        (defect,) = store.admin.verify(whole=True).defects
    assert defect.where == "trigger spy of heads"


SEALED = """select table_name from information_schema.columns
where table_schema = 'ledgerstone' and column_name = 'seal'"""


def test_no_way_of_writing_seals_a_row(
    store: Store, server: psycopg.Connection[Any], postgres_url: str, postgres_places: Places
) -> None:
    """Planned, in the caller's transaction, and copied: seals stay empty (ADR 0026)."""
    _write_run(store, "planned")
    with psycopg.connect(postgres_url) as connection:
        _write_run(store, "joined", connection)
    target = postgres_places.fresh()
    with Store.open(postgres_url, tenant=None) as whole, Store.open(target, tenant=None) as other:
        whole.admin.copy_to(other)
    assert _sealed(server) == []
    with psycopg.connect(target, options="-c search_path=ledgerstone") as connection:
        assert _sealed(connection) == []


def _write_run(store: Store, id: str, connection: object = None) -> None:
    for steps in (1, 2):
        turn = store.turns.begin("s", run_id=id)
        turn.assistant("a word")
        turn.run("running", steps=steps)
        turn.commit(connection=connection)


def _sealed(connection: psycopg.Connection[Any]) -> list[str]:
    tables = [name for (name,) in connection.execute(SEALED)]
    assert "runs" in tables
    count = "select count(*) from {} where seal is not null"
    return [
        name
        for name in tables
        if connection.execute(sql.SQL(count).format(sql.Identifier(name))).fetchone() != (0,)
    ]


def test_a_name_that_no_index_holds_is_refused(store: Store) -> None:
    """SQLite keeps it; an entry of an index of PostgreSQL has at most a third of a page."""
    name = "".join(chr(0x4E00 + n * 7919 % 20000) for n in range(1024))
    with pytest.raises(InvalidValue):
        store.branches.create("s", name)
    assert store.admin.verify().ok
