"""No statement walks a table that grows: neither in a young store nor in a large one.

Plans are those that a connection of ours gets: generic ones, made once and kept. In a large store
the statements of a turn are also carried out, and the rows that they looked at are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ledgerstone.backends.postgres_urls import parse_target
from ledgerstone.sql.catalogue import Statement, load, parse
from ledgerstone.sql.migrate import functions
from ledgerstone.testing.servers.places import Places
from tests.backends.secured_role import secured_role
from tests.backends.statement_variants import variants

SESSIONS = 10_000
STATEMENTS = load("postgres")
# Reports that count everything, and sweeps of small leftovers: never part of a request.
WHOLE_TABLE = {"count_rows", "list_tenants", "next_purged", "headless_sessions", "schema_texts"}
# Verify of the whole store looks at what no session claims.
LOOSE_ROWS = {name for name in STATEMENTS if name.startswith("loose_")}
# Lists of a whole tenant read it in chunks by design; with a kind they use its index.
TENANT_SCANS = {"list_tenant_nodes"}
APPLY = "\n".join(functions("postgres"))
# The greatest of all; both are the end of an index, and no row has to fit a condition.
ENDS = {"feed_end", "last_number"}
CHECKED = sorted(set(STATEMENTS) - WHOLE_TABLE - LOOSE_ROWS - TENANT_SCANS - ENDS)

Connection = psycopg.Connection[Any]
Plan = dict[str, Any]


def connect(url: str) -> Connection:
    """A connection with the settings of ours."""
    options = parse_target(url).options + " -c ledgerstone.tenant=t1"
    return psycopg.connect(url, autocommit=True, options=options, prepare_threshold=None)


@pytest.fixture(scope="module")
def young(postgres_places: Places) -> Iterator[Connection]:
    with connect(postgres_places.fresh()) as connection:
        yield connection


@pytest.fixture(scope="module")
def large_url(postgres_places: Places) -> str:
    text = Path(__file__).with_name("large_store.sql").read_text("utf-8")
    url = postgres_places.fresh()
    with psycopg.connect(url, autocommit=True, options=parse_target(url).options) as filling:
        for (name,) in filling.execute(
            "select tablename from pg_tables where schemaname = 'ledgerstone'"
        ).fetchall():
            filling.execute(f"alter table {name} set unlogged")
        filling.execute(text.replace("{sessions}", str(SESSIONS)))
    return url


@pytest.fixture(scope="module")
def large(large_url: str) -> Iterator[Connection]:
    with connect(large_url) as connection:
        yield connection


@pytest.fixture(scope="module")
def secured(large_url: str, postgres_places: Places) -> Iterator[Connection]:
    """The same as a role that row-level security binds: not every condition may use an index."""
    with secured_role(postgres_places, large_url) as (url, _), connect(url) as connection:
        yield connection


def explain(connection: Connection, text: str, *given: Any, how: str = "") -> Plan:
    """The plan that a prepared statement gets, and what became of it if it is carried out."""
    connection.execute("deallocate all")
    said = connection.pgconn.exec_(b"prepare plan as " + text.encode())
    assert not said.error_message, said.error_message
    count = max((int(n) for n in re.findall(r"\$(\d+)", text)), default=0)
    values = list(given) or [None] * count
    call = f"execute plan ({', '.join(['%s'] * count)})" if count else "execute plan"
    with connection.transaction(force_rollback=True):
        cursor = psycopg.ClientCursor(connection)
        cursor.execute(f"explain (format json{how}) {call}", values)
        row = cursor.fetchone()
    assert row is not None
    plan: Plan = row[0][0]["Plan"]
    return plan


def steps(plan: Plan) -> Iterator[Plan]:
    yield plan
    for below in plan.get("Plans", []):
        yield from steps(below)


def walks(plan: Plan) -> list[str]:
    """Steps that go through a whole table of ours, or through a whole index of it."""
    return [
        f"{step['Node Type']} on {step['Relation Name']}"
        for step in steps(plan)
        if "Relation Name" in step
        and not step["Relation Name"].startswith("pg_")
        and step["Relation Name"] != "store"
        and (step["Node Type"] == "Seq Scan" or _is_unbound(step))
    ]


def _is_unbound(step: Plan) -> bool:
    return step["Node Type"] in ("Index Scan", "Index Only Scan") and "Index Cond" not in step


def touched(plan: Plan) -> int:
    """How many rows of tables were looked at."""
    return sum(
        round((step["Actual Rows"] + step.get("Rows Removed by Filter", 0)) * step["Actual Loops"])
        for step in steps(plan)
        if "Relation Name" in step
    )


@pytest.mark.parametrize("name", CHECKED)
def test_no_table_is_walked_in_a_young_store(young: Connection, name: str) -> None:
    for text in variants(STATEMENTS[name]):
        assert walks(explain(young, text)) == [], text


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_no_table_is_walked_in_a_large_store(large: Connection, name: str) -> None:
    for text in variants(STATEMENTS[name]):
        assert walks(explain(large, text)) == [], text


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_none_is_walked_under_row_level_security(secured: Connection, name: str) -> None:
    for text in variants(STATEMENTS[name]):
        assert walks(explain(secured, text)) == [], text


FIRST = 1 << 32
LAST = FIRST + 300
LATE = 1 << 50

HOT: list[tuple[int, str, dict[str, Any]]] = [
    (2, "find_head", {"tenant": "t1", "id": "s1"}),
    (2, "find_outline", {"tenant": "t1", "id": "s1"}),
    (6, "find_commit", {"tenant": "t1", "id": "s1", "turn": "turn1-1", "run": "r1-1"}),
    (6, "find_commit", {"tenant": "t1", "id": "s1", "turn": "new", "run": "new"}),
    (1, "find_turn", {"number": 1, "id": "turn1-1"}),
    (0, "find_turn", {"number": 1, "id": "new"}),
    (1, "find_place", {"number": 1, "id": "n5-1"}),
    (2, "lock_head", {"tenant": "t1", "id": "s1"}),
    (2, "session_at", {"number": 1}),
    (
        50,
        "read_straight",
        {
            "first": FIRST,
            "last": LAST,
            "messages": 1,
            "spoken": 1,
            "live": 1,
            "descending": 1,
            "limit": 50,
        },
    ),
    (100, "read_straight", {"first": FIRST, "last": LAST, "nodes": 1, "ascending": 1, "limit": 50}),
    (80, "walk_jumps", {"base": FIRST, "leaf": LAST}),
    (120, "read_run", {"number": 1, "run_id": "r1-1"}),
    (90, "list_session_nodes", {"tenant": "t1", "session": "s1", "by_ord": 1, "limit": 40}),
    (1, "newest_compaction", {"first": FIRST, "last": LAST}),
    (1, "last_amendment", {"key": FIRST + 20}),
    (20, "list_turns", {"number": 1, "after": 0, "limit": 20}),
    (40, "read_feed", {"tenant": "t1", "after": 0, "limit": 20}),
    (40, "read_session_feed", {"tenant": "t1", "session": "s1", "after": 0, "limit": 20}),
    (1, "feed_end", {"tenant": "t1"}),
    (
        110,
        "list_sessions",
        {"tenant": "t1", "user": "u1", "live": 1, "newest": 1, "limit": 20, "offset": 0},
    ),
    (110, "list_sessions", {"tenant": "t1", "live": 1, "newest": 1, "limit": 20, "offset": 0}),
    (30, "candidates", {"number": 1, "queue": "q", "fence": 1, "now_us": LATE, "limit": 10}),
    (2, "claimed_batches", {"number": 1, "claim": "c10"}),
    (12, "look_at_queues", {"number": 1, "claim": "c10", "now_us": LATE}),
    (6, "next_ready", {"tenant": "t1", "queue": "q", "now_us": LATE}),
    (
        30,
        "ready_line",
        {"tenant": "t1", "queue": "q", "priority": 1, "due_us": 0, "number": 0, "limit": 10},
    ),
    (3, "budgets_of", {"tenant": "t1", "number": 1, "session": "s1"}),
    (1, "get_memory", {"tenant": "t1", "namespace": "ns1", "key": "k1", "now": 0}),
    (20, "scan_memories", {"tenant": "t1", "now": 0, "first": "ns1", "last": "ns2", "limit": 20}),
    (20, "changed_vectors", {"tenant": "t1", "model": "m", "after": 0, "limit": 20}),
    (2, "find_ticket", {"tenant": "t1", "id": "tk1-1"}),
    (3, "find_execution", {"tenant": "t1", "id": "ex1-1", "now": 0}),
    (1, "execution_of_call", {"number": 1, "call": "c1"}),
    (1, "get_document", {"number": 1, "name": "state"}),
    (4, "get_documents", {"tenant": "t1", "name": "state", "ids": ["s1", "none"]}),
    (
        1,
        "set_lease",
        {"number": 1, "fence": 1, "owner": "o", "token": "t", "claimed_us": 1, "expires_us": 2},
    ),
    (1, "extend_run", {"key": FIRST + 1, "first_ord": 1, "last_ord": 2}),
    (30, "session_usage", {"number": 1}),
]


def text_of(name: str, given: dict[str, Any]) -> tuple[str, list[Any]]:
    statement: Statement = STATEMENTS[name]
    if not statement.has_conditions:
        return statement.text, [given[argument] for argument in statement.arguments]
    text, bound = statement.variant(frozenset(given))
    return text, [given[argument] for argument in bound]


@pytest.mark.slow
@pytest.mark.parametrize(("most", "name", "given"), HOT)
def test_a_hot_statement_looks_at_few_rows(
    large: Connection, most: int, name: str, given: dict[str, Any]
) -> None:
    text, values = text_of(name, given)
    plan = explain(large, text, *values, how=", analyze, timing off")
    assert touched(plan) <= most, plan


@pytest.mark.slow
@pytest.mark.parametrize(("most", "name", "given"), HOT)
def test_it_does_so_under_row_level_security(
    secured: Connection, most: int, name: str, given: dict[str, Any]
) -> None:
    text, values = text_of(name, given)
    plan = explain(secured, text, *values, how=", analyze, timing off")
    assert touched(plan) <= most, plan


def known_turn() -> str:
    """What `ledger_apply` asks for each turn: whether it is known already."""
    found = re.search(r"\(\s*(select true from turns t\s.*?limit 1)\)", APPLY, re.DOTALL)
    assert found is not None
    text = found[1].replace("texts[n * 4 - 1]", "$1").replace("texts[n * 4 - 3]", "$2")
    assert "[" not in text
    return f"select ({text}) from heads h where h.number = $3"


@pytest.mark.slow
@pytest.mark.parametrize("role", ["large", "secured"])
def test_a_planned_commit_looks_for_its_turn_only(
    role: str, request: pytest.FixtureRequest
) -> None:
    connection: Connection = request.getfixturevalue(role)
    plan = explain(connection, known_turn(), "new", "t1", 1, how=", analyze, timing off")
    assert touched(plan) <= 1, plan


# Budgets are few, and of one tenant.
GROWN = [(most, name, given) for most, name, given in HOT if name != "budgets_of"]


@pytest.fixture(scope="module")
def grown(postgres_places: Places) -> Iterator[Connection]:
    """A store that nobody analysed, and plans that were made and kept while it was empty."""
    url = postgres_places.fresh()
    text = Path(__file__).with_name("large_store.sql").read_text("utf-8")
    with connect(url) as connection, connect(url) as filling:
        for (name,) in filling.execute(
            "select tablename from pg_tables where schemaname = 'ledgerstone'"
        ).fetchall():
            filling.execute(f"alter table {name} set (autovacuum_enabled = false)")
        for n, (_, name, given) in enumerate(GROWN):
            text_of_it, values = text_of(name, given)
            connection.execute(f"prepare grown_{n} as {text_of_it}")
            carry_out(connection, n, values)
        filling.execute(text.replace("{sessions}", "1000").replace("analyze;", ""))
        yield connection


def carry_out(connection: Connection, n: int, values: list[Any]) -> Plan:
    marks = ", ".join(["%s"] * len(values))
    call = f"execute grown_{n} ({marks})" if values else f"execute grown_{n}"
    with connection.transaction(force_rollback=True):
        cursor = psycopg.ClientCursor(connection)
        cursor.execute(f"explain (format json, analyze, timing off) {call}", values)
        row = cursor.fetchone()
    assert row is not None
    plan: Plan = row[0][0]["Plan"]
    return plan


@pytest.mark.slow
@pytest.mark.parametrize("n", range(len(GROWN)), ids=[name for _, name, _ in GROWN])
def test_a_plan_of_an_empty_store_is_good_for_a_full_one(grown: Connection, n: int) -> None:
    most, name, given = GROWN[n]
    plan = carry_out(grown, n, text_of(name, given)[1])
    assert touched(plan) <= most, plan


def test_a_statement_without_an_index_is_found(young: Connection) -> None:
    (bad,) = parse("-- name: bad(us)\nselect id from nodes where created_us = :us", "$")
    assert walks(explain(young, bad.text)) == ["Seq Scan on nodes"]
