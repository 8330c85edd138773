"""The migrations of PostgreSQL make what the declarations of the tables say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import psycopg
import pytest

from ledgerstone.sql.migrate import migrations
from ledgerstone.testing.servers.places import Places
from tests.backends.postgres_declarations import schema

OWN = "store"
"""The table of the engine itself."""
COLUMNS = """
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
  (select l.collname from pg_collation l where l.oid = a.attcollation)
from pg_attribute a join pg_class c on c.oid = a.attrelid
where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and a.attnum > 0
  and not a.attisdropped and c.relname <> %s"""
INDEXES = """
select replace(pg_get_indexdef(i.indexrelid), current_schema() || '.', ''), i.indisprimary
from pg_index i join pg_class c on c.oid = i.indrelid
where c.relnamespace = current_schema()::regnamespace and c.relname <> %s"""


@pytest.fixture(scope="module")
def connection(postgres_places: Places) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_places.blank(), autocommit=True) as made:
        yield made


def described(connection: psycopg.Connection[Any], texts: Iterable[str]) -> set[Any]:
    """What the server knows of columns, keys and indexes after these statements."""
    with connection.transaction(force_rollback=True):
        connection.execute("create schema described")
        connection.execute("set local search_path to described")
        for text in texts:
            connection.execute(text)
        return {row for text in (COLUMNS, INDEXES) for row in connection.execute(text, [OWN])}


MADE = [step.text for step in migrations("postgres")]


def test_the_migrations_make_what_is_declared(connection: psycopg.Connection[Any]) -> None:
    assert described(connection, MADE) == described(connection, schema())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("expires_us bigint not null default 0,", "expires_us bigint,"),
        ('owner text collate "C",', "owner bytea,"),
        ('digest text collate "C" not null', "digest text not null"),
        ("where later = 1", "where later = 2"),
        ("(number, queue, later, priority, seq)", "(number, queue, priority, later, seq)"),
        ("create unique index work_id", "create index work_id"),
        ("primary key (number, node, key)", "primary key (number, key, node)"),
        ("primary key (tenant, pos)", "primary key (pos)"),
        ("nodes (id, (key >> 32))", "nodes (id, (key >> 31))"),
        ("parent integer not null", "parent bigint not null"),
    ],
)
def test_a_schema_that_is_not_declared_is_found(
    connection: psycopg.Connection[Any], old: str, new: str
) -> None:
    changed = [text.replace(old, new) for text in MADE]
    assert changed != MADE
    assert described(connection, changed) != described(connection, schema())
