"""No generated statement reads a table whole, or sorts: the planner must find its index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.engines.sqlite.rows import statements_of
from ledgerstone.engines.sqlite.statements import Shape
from ledgerstone.sql.catalogue import load
from ledgerstone.tables.schema import TABLES
from ledgerstone.tables.table import Index, Table
from tests.backends.statement_variants import variants

# Reports that count everything, and what is asked of one row.
WHOLE_TABLE = {"count_stored", "schema_texts", "read_mark", "write_mark"}
# Asked for a session only: SQLite bounds no row value that begins with an expression, and the few
# rows of a table with a rowid of its own are sorted by their key.
OF_ONE_SESSION = {"<nodes.label>": 1, "<embeddings.session>": 3}
INDEXES = [index for table in TABLES for index in table.indexes.values()]
UNIQUE = [index for index in INDEXES if index.unique and index is not index.table.primary]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path = tmp_path_factory.mktemp("plans") / "store.db"
    open_sqlite(str(path)).close()
    opened = apsw.Connection(str(path))
    yield opened
    opened.close()


def steps_of(connection: apsw.Connection, text: str) -> list[str]:
    """What the planner says it will do, one text per step."""
    numbered = [n for n in range(1, 41) if f"?{n}" in text]
    bindings = (1,) * (max(numbered) if numbered else text.count("?"))
    plan = connection.execute("EXPLAIN QUERY PLAN " + text, bindings).fetchall()
    return [str(row[3]) for row in plan]


def flaws(connection: apsw.Connection, text: str, index: Index[Any] | None = None) -> list[str]:
    """Steps that look at rows nobody asked for, or not through this index."""
    found = []
    for step in steps_of(connection, text):
        whole = step.startswith("SCAN") and not step.endswith(("CONSTANT ROW", "VALUES CLAUSE"))
        if (
            whole
            or "TEMP B-TREE" in step
            or (index is not None and step.startswith("SEARCH") and not _is_through(step, index))
        ):
            found.append(step)
    return found


def _is_through(step: str, index: Index[Any]) -> bool:
    if index is index.table.primary and not index.table.rowid:
        return "PRIMARY KEY" in step or _finds_one(step, index.table)
    return f" {index.table.name}_{index.name} " in step


def _finds_one(step: str, table: Table[Any]) -> bool:
    """Whether another unique index gives the one row there is."""
    return any(
        f" {table.name}_{one.name} " in step and step.count("=?") == len(one.columns)
        for one in UNIQUE
        if one.table is table
    )


def shapes(index: Index[Any]) -> Iterator[Shape]:
    """Every question that can be asked of an index, but for all rows."""
    size = len(index.columns)
    for prefix in range(OF_ONE_SESSION.get(repr(index), 0), size + 1):
        bounds = [None, *range(1, size - prefix + 1)]
        for after in bounds:
            for before in bounds:
                if prefix or after or before:
                    for reverse in (False, True):
                        yield Shape(prefix, after, before, True, reverse, None)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_rows_are_reached_by_their_key(connection: apsw.Connection, table: Table[Any]) -> None:
    texts = statements_of(table)
    asked = [texts.load, texts.delete, *(texts.many(count) for count in (1, 2, 64))]
    asked += [texts.update(())[0], texts.update(texts.movable)[0]]
    for text in filter(None, asked):
        assert flaws(connection, text, table.primary) == [], text
    for text in filter(None, (texts.insert, texts.put, texts.add)):
        assert flaws(connection, text) == [], text


@pytest.mark.parametrize("index", UNIQUE, ids=repr)
def test_rows_are_found_by_what_is_unique(connection: apsw.Connection, index: Index[Any]) -> None:
    text = statements_of(index.table).find(index)
    assert flaws(connection, text, index) == [], text


@pytest.mark.parametrize("index", INDEXES, ids=repr)
def test_a_range_is_read_through_its_index(connection: apsw.Connection, index: Index[Any]) -> None:
    asked = list(shapes(index))
    assert asked or repr(index) in OF_ONE_SESSION
    for shape in asked:
        text = statements_of(index.table).range_text(index, shape).text
        assert flaws(connection, text, index) == [], text


@pytest.mark.parametrize(
    "index", [one for one in INDEXES if repr(one) not in OF_ONE_SESSION], ids=repr
)
def test_all_rows_come_in_order_without_sorting(
    connection: apsw.Connection, index: Index[Any]
) -> None:
    text = (
        statements_of(index.table).range_text(index, Shape(0, None, None, True, False, None)).text
    )
    steps = steps_of(connection, text)
    assert not any("TEMP B-TREE" in step for step in steps), text


@pytest.mark.parametrize("name", sorted(set(load("sqlite")) - WHOLE_TABLE))
def test_every_statement_by_name_uses_an_index(connection: apsw.Connection, name: str) -> None:
    for text in variants(load("sqlite")[name]):
        # Rows of one bucket of times, or of one user or parent, are sorted.
        found = [one for one in flaws(connection, text) if "TEMP B-TREE" not in one]
        assert found == [], text


def test_the_newest_sessions_of_a_user_are_not_sorted_whole(connection: apsw.Connection) -> None:
    given = frozenset({"tenant", "user", "live", "newest", "limit", "offset"})
    steps = steps_of(connection, load("sqlite")["listed_sessions"].variant(given)[0])
    assert any("sessions_user" in step for step in steps), steps
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps


@pytest.mark.parametrize(
    "bad",
    [
        "select id from nodes where created_us = ?",
        'select "id" from runs where "tenant" = ? order by "body"',
        'select * from work where "priority" = ?',
    ],
)
def test_a_statement_without_an_index_is_found(connection: apsw.Connection, bad: str) -> None:
    assert flaws(connection, bad) != []


def test_another_index_is_found(connection: apsw.Connection) -> None:
    index = TABLES[0].indexes["created"]
    text = statements_of(TABLES[0]).find(TABLES[0].indexes["id"])
    assert flaws(connection, text, index) != []


@pytest.mark.parametrize("due_us", [1, 10**9])
def test_finding_the_next_session_does_not_depend_on_how_many_wait(
    tmp_path: Path, due_us: int
) -> None:
    few, many = (_cost_of_next_ready(tmp_path, count, due_us) for count in (10, 5000))
    assert many <= few + 20


def _cost_of_next_ready(folder: Path, count: int, due_us: int) -> int:
    """Steps of the database's machine, with so many sessions in the line, due or not."""
    from ledgerstone.engines.sqlite.rows import SqliteRows
    from ledgerstone.handlers.ready import next_ready
    from ledgerstone.tables.transaction import Tx
    from ledgerstone.trampoline import run_now

    path = str(folder / f"{count}.db")
    open_sqlite(path).close()
    connection = apsw.Connection(path)
    rows = [(n, "q", "t", n % 2, due_us + n) for n in range(count)]
    insert = "insert into ready (number, queue, tenant, priority, due_us) values (?,?,?,?,?)"
    with connection:
        connection.executemany(insert, rows)
    steps = 0

    def tick() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection.set_progress_handler(tick, 1)
    run_now(next_ready(Tx(SqliteRows(connection), 10**6), "t", "q"))
    connection.close()
    return steps
