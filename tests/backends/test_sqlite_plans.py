"""No statement scans a table that grows: the planner must find an index for each of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import apsw
import pytest

from ledgerstone.backends.sqlite import open_sqlite
from ledgerstone.sql.catalogue import load, parse
from tests.backends.statement_variants import variants

# Reports that count everything, and sweeps of small leftovers: never part of a request.
WHOLE_TABLE = {"count_rows", "list_tenants", "next_purged", "headless_sessions", "schema_texts"}
WHOLE_TABLE |= {"read_mark", "write_mark"}  # Of one row.
# Verify of the whole store looks at what no session claims.
LOOSE_ROWS = {name for name in load() if name.startswith("loose_")}
# Lists of a whole tenant read it in chunks by design; with a kind they use its index.
TENANT_SCANS = {"list_tenant_nodes"}
# Rows that a statement makes itself, one per node, stretch, relative, priority or queue.
SMALL_STEPS = tuple(
    f"SCAN {name}"
    for name in (
        "path",
        "jump",
        "l",
        "f",
        "line",
        "w",
        "s",
        "soonest",
        "CONSTANT ROW",
        "json_each VIRTUAL TABLE INDEX 1:",
    )
)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> apsw.Connection:
    path = tmp_path_factory.mktemp("plans") / "store.db"
    open_sqlite(str(path)).close()
    return apsw.Connection(str(path))


def scans(connection: apsw.Connection, text: str) -> list[str]:
    bindings = (1,) * 40
    count = max((n for n in range(1, 41) if f"?{n}" in text), default=0)
    plan = connection.execute("EXPLAIN QUERY PLAN " + text, bindings[:count]).fetchall()
    steps = [str(row[3]) for row in plan]
    return [
        step
        for step in steps
        if step.startswith("SCAN") and step not in SMALL_STEPS and "(subquery" not in step
    ]


@pytest.mark.parametrize("name", sorted(set(load()) - WHOLE_TABLE - LOOSE_ROWS - TENANT_SCANS))
def test_every_statement_uses_an_index(connection: apsw.Connection, name: str) -> None:
    for text in variants(load()[name]):
        assert scans(connection, text) == [], text


def test_a_tenant_list_by_kind_uses_its_index(connection: apsw.Connection) -> None:
    given = frozenset({"kind", "label", "by_id_desc"})
    text, _ = load()["list_tenant_nodes"].variant(given)
    assert scans(connection, text) == []


def test_stretches_are_found_through_their_index(connection: apsw.Connection) -> None:
    plan = connection.execute("EXPLAIN QUERY PLAN " + load()["walk_jumps"].text, (1, 2)).fetchall()
    found = [str(row[3]) for row in plan if "nodes_jumps" in str(row[3])]
    assert len(found) == 2, plan


def test_the_newest_sessions_of_a_user_are_not_sorted_whole(connection: apsw.Connection) -> None:
    text, bound = load()["list_sessions"].variant(frozenset({"user", "live", "newest"}))
    plan = connection.execute("EXPLAIN QUERY PLAN " + text, (1,) * len(bound)).fetchall()
    steps = [str(row[3]) for row in plan]
    assert any("sessions_user" in step for step in steps), steps
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps


def test_a_statement_without_an_index_is_found(connection: apsw.Connection, tmp_path: Path) -> None:
    (bad,) = parse("-- name: bad(created_us)\nselect id from nodes where created_us = :created_us")
    assert scans(connection, bad.text)


def steps_of(connection: apsw.Connection, name: str, *arguments: object) -> list[str]:
    """What the planner says it will do, one text per step."""
    text = load()[name].text
    plan = connection.execute("EXPLAIN QUERY PLAN " + text, arguments).fetchall()
    return [str(row[3]) for row in plan]


@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("candidates", (1, "q", 1, 1, 1), "number=? AND queue=? AND later=?"),
        ("promote_work", (1, "q", 1), "work_later (number=? AND queue=? AND available_us<?)"),
        ("claimed_batches", (1, "c"), "work_claim (number=? AND claim=?)"),
        ("claim_places", (1, "c"), "work_claim (number=? AND claim=?)"),
        ("look_at_queues", (1, "c", 1), "work_claim (number=? AND claim=?)"),
        ("look_at_queues", (1, "c", 1), "work_later (number=? AND queue=? AND available_us<?)"),
        ("complete_claim", (1, "c"), "work_claim (number=? AND claim=?)"),
        ("drop_batch", (1, "b"), "work_id (number=? AND id=?)"),
    ],
)
def test_the_queue_is_never_walked(
    connection: apsw.Connection, name: str, arguments: tuple[object, ...], wanted: str
) -> None:
    steps = steps_of(connection, name, *arguments)
    assert any(wanted in step for step in steps), steps


def test_candidates_come_in_order_without_sorting(connection: apsw.Connection) -> None:
    steps = steps_of(connection, "candidates", 1, "q", 1, 1, 1)
    assert not any("TEMP B-TREE" in step for step in steps), steps


def test_the_next_session_is_found_through_the_index_of_the_line(
    connection: apsw.Connection,
) -> None:
    steps = steps_of(connection, "next_ready", "t", "q", 1)
    on_table = [step for step in steps if " ready " in step]
    assert len(on_table) == 4
    assert all("COVERING INDEX ready_due" in step for step in on_table), steps


@pytest.mark.parametrize("due_us", [1, 10**9])
def test_finding_the_next_session_does_not_depend_on_how_many_wait(due_us: int) -> None:
    few, many = (_cost_of_next_ready(count, due_us) for count in (10, 5000))
    assert many <= few + 20


def _cost_of_next_ready(count: int, due_us: int) -> int:
    """Steps of the database's machine, with so many sessions in the line, due or not."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store.db"
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
        connection.execute(load()["next_ready"].text, ("t", "q", 10**6)).fetchall()
        connection.close()
    return steps
