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

from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.engines.postgres.functions import functions
from ledgerstone.engines.postgres.rows import session_and_head
from ledgerstone.engines.postgres.statements import numbered, statements_of
from ledgerstone.engines.statements import Shape
from ledgerstone.sql.catalogue import load, parse
from ledgerstone.tables.graph import (
    NODES,
    NODES_BY_ID,
    NODES_BY_LABEL,
    NODES_COMPACTIONS,
    NODES_JUMPS,
    TURNS_BY_ID,
    TURNS_BY_REVISION,
)
from ledgerstone.tables.memories import MEMORIES
from ledgerstone.tables.runs import RUNS_BY_ID
from ledgerstone.tables.sessions import DOCUMENTS, SESSIONS_BY_USER
from ledgerstone.tables.table import Index
from ledgerstone.tables.tickets import EXECUTIONS_BY_CALL, TICKETS
from ledgerstone.tables.usage import BUDGETS, USAGE_DAYS
from ledgerstone.tables.work import READY_DUE, WORK_BY_CLAIM, WORK_BY_ID, WORK_IN_ORDER
from ledgerstone.testing.servers.places import Places
from tests.backends.generated import GENERATED, named
from tests.backends.secured_role import secured_role

SESSIONS = 10_000
STATEMENTS = load("postgres")
# Reports that count everything; never part of a request.
WHOLE_TABLE = {"count_rows", "list_tenants", "verified_tenants", "schema_texts"}
# The greatest of all is the end of an index, and no row has to fit a condition.
ENDS = {"feed_end"}
CHECKED: dict[str, list[str]] = {}
for _name, _text in named():
    if _name.split()[0] not in WHOLE_TABLE | ENDS:
        CHECKED.setdefault(_name.split()[0], []).append(_text)
for _name, _text in GENERATED.items():
    # Without any bound only verify of the whole store looks through a table.
    if not re.search(r" 0-(None|\d)-| last$", _name):
        CHECKED.setdefault(_name.split()[0], []).append(_text)
APPLY = "\n".join(functions())

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
    for text in CHECKED[name]:
        assert walks(explain(young, text)) == [], text


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_no_table_is_walked_in_a_large_store(large: Connection, name: str) -> None:
    for text in CHECKED[name]:
        assert walks(explain(large, text)) == [], text


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKED)
def test_none_is_walked_under_row_level_security(secured: Connection, name: str) -> None:
    for text in CHECKED[name]:
        assert walks(explain(secured, text)) == [], text


FIRST = 1 << 32
LAST = FIRST + 300


def find(index: Index[Any]) -> str:
    return statements_of(index.table).find(index)


def stretch(index: Index[Any], prefix: int, **more: Any) -> str:
    given: dict[str, Any] = {"after": None, "before": None, "limit": True, "reverse": False}
    shape = Shape(prefix, columns=None, **(given | more))
    return statements_of(index.table).range_text(index, shape).text


def variant(statement: str, /, **given: Any) -> tuple[str, list[Any]]:
    text, bound = STATEMENTS[statement].variant_of(given)
    return text, list(bound)


BOUNDS = {"after": 1, "before": 1}
HOT: dict[str, tuple[int, str, list[Any]]] = {
    "session": (2, session_and_head(), ["t1", "s1"]),
    "lock session": (2, STATEMENTS["lock_session"].text, ["t1", "s1"]),
    "lock numbers": (1, STATEMENTS["lock_numbers"].text, ["t1", [1]]),
    "turn": (1, find(TURNS_BY_ID), ["t1", "turn1-1", 1]),
    "no turn": (0, find(TURNS_BY_ID), ["t1", "new", 1]),
    "revision": (1, find(TURNS_BY_REVISION), ["t1", 1, 50]),
    "node": (1, find(NODES_BY_ID), ["t1", "n5-1", 1]),
    "nodes": (3, statements_of(NODES).many, ["t1", [FIRST, FIRST + 1, FIRST + 2]]),
    "documents": (2, statements_of(DOCUMENTS).many, ["t1", [1, 1], ["state", "config"]]),
    "path": (51, stretch(NODES.primary, 1, reverse=True, **BOUNDS), ["t1", FIRST, LAST, 50]),
    "jump": (1, stretch(NODES_JUMPS, 1, before=1, reverse=True), ["t1", FIRST, LAST, 1]),
    "compaction": (2, stretch(NODES_COMPACTIONS, 1, reverse=True), ["t1", FIRST, LAST, 1]),
    "labels": (40, stretch(NODES_BY_LABEL, 1), ["t1", 1, 40]),
    "run": (1, stretch(RUNS_BY_ID, 1, limit=False), ["t1", "r1-1"]),
    "turns": (20, stretch(TURNS_BY_REVISION, 1, after=1), ["t1", 1, 0, 20]),
    "users": (21, stretch(SESSIONS_BY_USER, 2, reverse=True), ["t1", "t1", "u1", 20]),
    "batch": (1, find(WORK_BY_ID), ["t1", 1, "w1-1"]),
    "line": (10, stretch(WORK_IN_ORDER, 2), ["t1", 1, "q", 10]),
    "claim": (2, stretch(WORK_BY_CLAIM, 2, limit=False), ["t1", 1, "c10"]),
    "due": (10, stretch(READY_DUE, 2, after=1), ["t1", "t1", "q", 1, 10]),
    "budgets": (3, stretch(BUDGETS.primary, 3, limit=False), ["t1", "t1", "session", "s1"]),
    "memory": (1, statements_of(MEMORIES).load, ["t1", "t1", "ns1", "k1"]),
    "memories": (20, stretch(MEMORIES.primary, 2), ["t1", "t1", "ns1", 20]),
    "ticket": (1, statements_of(TICKETS).load, ["t1", "t1", "tk1-1"]),
    "call": (1, stretch(EXECUTIONS_BY_CALL, 2), ["t1", 1, "c1", 1]),
    "usage": (30, stretch(USAGE_DAYS.primary, 1, limit=False), ["t1", 1]),
    "read_feed": (40, *variant("read_feed", tenant="t1", after=0, limit=20)),
    "feed_end": (1, *variant("feed_end", tenant="t1")),
    "listed of a user": (
        110,
        *variant("listed_sessions", tenant="t1", user="u1", live=1, newest=1, limit=20, offset=0),
    ),
    "listed": (110, *variant("listed_sessions", tenant="t1", live=1, newest=1, limit=20, offset=0)),
    "documents_of": (4, *variant("documents_of", tenant="t1", name="state", ids=["s1", "none"])),
    "run_record": (3, *variant("run_record", tenant="t1", id="r1-1")),
    "changed_vectors": (20, *variant("changed_vectors", tenant="t1", model="m", after=0, limit=20)),
    "delete": (2, numbered(statements_of(DOCUMENTS).delete, 1), ["t1", [1, 1], ["state", "x"]]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_looks_at_few_rows(large: Connection, name: str) -> None:
    most, text, values = HOT[name]
    plan = explain(large, text, *values, how=", analyze, timing off")
    assert touched(plan) <= most, plan


# Of an index that begins with half a key, conditions cannot be used there: all nodes of a session.
SECURED_MOST = {"labels": 300}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOT)
def test_it_does_so_under_row_level_security(secured: Connection, name: str) -> None:
    most, text, values = HOT[name]
    plan = explain(secured, text, *values, how=", analyze, timing off")
    assert touched(plan) <= SECURED_MOST.get(name, most), plan


def known_turn() -> str:
    """What `ledger_apply` asks for each turn: whether it is known already."""
    found = re.search(r"\(\s*(select true from turns t\s.*?limit 1)\)", APPLY, re.DOTALL)
    assert found is not None
    text = found[1].replace("c.turn", "$1").replace("c.tenant", "$2")
    assert "c." not in text
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
GROWN = {name: hot for name, hot in HOT.items() if name != "budgets"}


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
        for n, (_, wanted, values) in enumerate(GROWN.values()):
            connection.execute(f"prepare grown_{n} as {wanted}")
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
@pytest.mark.parametrize("n", range(len(GROWN)), ids=list(GROWN))
def test_a_plan_of_an_empty_store_is_good_for_a_full_one(grown: Connection, n: int) -> None:
    most, _, values = list(GROWN.values())[n]
    plan = carry_out(grown, n, values)
    assert touched(plan) <= most, plan


def test_a_statement_without_an_index_is_found(young: Connection) -> None:
    (bad,) = parse("-- name: bad(us)\nselect id from nodes where created_us = :us", "$")
    assert walks(explain(young, bad.text)) == ["Seq Scan on nodes"]
