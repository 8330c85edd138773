"""The migrations of SQLite make what the declarations of the tables say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw
import pytest

from ledgerstone.sql.migrate import migrations
from tests.unit.declared_sqlite import schema

OWN = ("generation", "store")
"""Tables of the engine itself."""


def described(texts: Iterable[str]) -> dict[str, list[object]]:
    """What SQLite knows of each table and index after these statements."""
    connection = apsw.Connection(":memory:")
    for text in texts:
        connection.execute(text)
    found: dict[str, list[object]] = {}
    names: list[Any] = connection.execute(
        "select type, name, tbl_name, sql from sqlite_schema"
    ).fetchall()
    for kind, name, table, sql in names:
        if table in OWN:
            continue
        info = "table_xinfo" if kind == "table" else "index_xinfo"
        columns: list[object] = [kind, table]
        columns += connection.execute(f"pragma {info}('{name}')").fetchall()
        if kind == "table":
            listed = connection.execute(f"pragma table_list('{name}')").fetchall()
            columns += [row[3:] for row in listed]  # Without rowid, strict.
            columns += sorted(
                (row[1], row[2:]) for row in connection.execute(f"pragma index_list('{name}')")
            )
        elif sql is not None:
            columns += expressions_of(sql)
        found[name] = columns
    connection.close()
    return found


def expressions_of(sql: str) -> list[str]:
    """What an index is over, and its condition, whatever the layout."""
    words = " ".join(sql.replace('"', "").split())
    return [part.strip() for part in words.partition(" on ")[2].partition(" where ")]


MADE = [step.text for step in migrations("sqlite")]


def test_the_migrations_make_what_is_declared() -> None:
    assert described(MADE) == described(schema())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("fence integer not null", "fence integer"),
        ("owner text,", "owner blob,"),
        ("where later = 1", "where later = 2"),
        ("(number, queue, later, priority, seq)", "(number, queue, priority, later, seq)"),
        ("create unique index work_id", "create index work_id"),
        ("primary key (number, node, key)", "primary key (number, key, node)"),
        (") strict, without rowid;\ncreate index ready_due", ") strict;\ncreate index ready_due"),
        ("nodes (id, key >> 32)", "nodes (id, key >> 31)"),
    ],
)
def test_a_schema_that_is_not_declared_is_found(old: str, new: str) -> None:
    changed = [text.replace(old, new) for text in MADE]
    assert changed != MADE
    assert described(changed) != described(schema())
