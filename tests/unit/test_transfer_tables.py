"""Nothing that a store holds is forgotten by a copy: every table and column is in the one list."""

from __future__ import annotations

import apsw
import pytest

from ledgerstone.rules.transfer import NOT_MOVED, OF_A_SESSION, TABLES, Tally, root_of
from ledgerstone.sql.migrate import migrations
from ledgerstone.tables.schema import TABLES as DECLARED

# Columns of SQLite that follow from others, or number what each database numbers by itself.
FOLLOWING = {
    "sessions": {"number", "tenant", "recency", "seal"},
    "heads": {"number", "touched_us", "runs", "seal"},
    "nodes": {"key", "seal"},
    "runs": {
        "key", "first_ord", "last_ord", "tenant", "status", "parent_run", "created_us", "seal",
    },
    "kept_runs": {"tenant", "status", "parent_run", "created_us", "seal"},
    "tickets": {
        "tenant", "number", "run", "status", "reason", "created_us", "expires_us", "seal",
    },
    "executions": {
        "tenant", "number", "call", "message", "run", "ticket", "status", "fence", "created_us",
        "seal",
    },
    "turns": {"pos", "number"},
    "amendments": {"key", "seal"},
    "work": {"number", "later", "seal"},
    "blobs": {"tenant", "place", "key", "sums", "seal"},
    "budgets": {"tenant", "scope", "subject", "seal"},
}  # fmt: skip
PLAIN = {"tenant", "number", "seal"}


def schema() -> dict[str, set[str]]:
    """The tables of SQLite and their columns."""
    connection = apsw.Connection(":memory:")
    for step in migrations("sqlite"):
        connection.execute(step.text)
    names = [
        row[0] for row in connection.execute("select name from sqlite_schema where type='table'")
    ]
    return {
        name: {row[1] for row in connection.execute(f"pragma table_info({name})")} for name in names
    }


@pytest.mark.parametrize("table", sorted(schema()))
def test_every_column_of_the_database_is_moved_or_follows(table: str) -> None:
    if table in NOT_MOVED and table != "heads":
        return
    moved = set(TABLES["sessions" if table == "heads" else table].columns)
    columns = schema()[table] - FOLLOWING.get(table, PLAIN)
    assert columns <= moved, f"{table}: {sorted(columns - moved)} would be lost by a copy"


def test_every_declared_table_is_moved_or_not_on_purpose() -> None:
    assert {table.name for table in DECLARED} <= {*TABLES, *NOT_MOVED}


def test_what_is_of_a_session_is_moved() -> None:
    assert {table.name for table in OF_A_SESSION} <= set(TABLES)


def test_the_root_is_of_content_order_and_table() -> None:
    def root(*added: tuple[str, tuple[str, ...]]) -> str:
        tally = Tally()
        for table, row in added:
            tally.add(table, [row])
        return tally.root("t").root

    one, two = ("stubs", ("a",)), ("stubs", ("b",))
    found = [root(), root(one), root(two), root(one, two), root(two, one), root(("spaces", ("a",)))]
    assert len(set(found)) == len(found)
    assert root(("stubs", ("ab",))) != root(("stubs", ("a", "b")))
    # What may move by merely looking is not in it.
    assert root(one, ("ready", ("s", "q"))) == root(one)
    assert root_of([]) != root_of([Tally().root("t")])
    assert root_of([Tally().root("t")]) != root_of([Tally().root("u")])


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_rows_are_the_same_however_many_come_at_once(count: int) -> None:
    rows = [("s", n, b"x" * (n % 3), None) for n in range(count)]
    whole, single = Tally(), Tally()
    size = whole.add("nodes", rows)
    assert size == sum(single.add("nodes", [row]) for row in rows)
    assert whole.differs(single) is None
    assert whole.root("t") == single.root("t")
