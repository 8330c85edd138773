"""Every statement, and every variant of it, is understood by a real PostgreSQL.

Both drivers leave it to the server to find the type of a parameter. A number that is taken for a
short integer would be cut off without a word, so the types are compared too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg import pq

from ledgerstone.engines.postgres.functions import functions
from ledgerstone.sql.migrate import migrations
from ledgerstone.testing.faults import postgres_cuts
from ledgerstone.testing.servers.places import Places
from tests.backends.generated import GENERATED, named

# bigint, text, bytea; text[], varchar[], bigint[], bytea[]; jsonb, which is text to both drivers;
# xid, which is a whole number to them.
KNOWN_TYPES = {20, 25, 17, 1009, 1015, 1016, 1001, 3802, 28}
# Role, run and count of new rows are short: integer and smallint.
NARROW_TYPES = {23, 21}
NARROW_ROWS = re.compile(r"insert into (nodes|turns) ")
TEXTS = GENERATED | dict(named())


@pytest.fixture(scope="module")
def connection(postgres_places: Places) -> Iterator[psycopg.Connection[Any]]:
    url = postgres_places.fresh()
    with psycopg.connect(url, autocommit=True, options="-c search_path=ledgerstone") as made:
        yield made


def prepare(connection: psycopg.Connection[Any], text: str) -> tuple[str, list[int]]:
    """What the server says against the text, and what it takes its parameters for."""
    said = connection.pgconn.prepare(b"", text.encode())
    if said.status != pq.ExecStatus.COMMAND_OK:
        return said.error_message.decode(), []
    seen = connection.pgconn.describe_prepared(b"")
    return "", [seen.param_type(n) for n in range(seen.nparams)]


def test_every_statement_is_understood(connection: psycopg.Connection[Any]) -> None:
    for text in TEXTS.values():
        complaint, types = prepare(connection, text)
        assert complaint == "", f"{text}\n{complaint}"
        narrow = NARROW_TYPES if NARROW_ROWS.match(text) else set()
        assert set(types) <= KNOWN_TYPES | narrow, f"{text}\n{types}"


def test_no_parameter_is_left_out() -> None:
    """Gaps in the numbers would be parameters that nobody can give a type."""
    for text in TEXTS.values():
        used = {int(number) for number in re.findall(r"\$(\d+)", text)}
        assert used == set(range(1, len(used) + 1)), text


def test_cuts_meet_every_planned_call() -> None:
    """And nothing else: tests of lost connections would cut another call than they mean."""
    met = {name for name, text in TEXTS.items() if re.search(postgres_cuts.PLANNED, text.encode())}
    assert met == {name for name in TEXTS if name.split()[0] in ("apply_planned", "single")}


# What is planned is carried out by the server itself, under locks of one session.
PLANNED = {"claim_alone", "single"}
_CALL = re.compile(r"\b([a-z_]+)\(")


def conditions(text: str) -> str:
    """What follows the first condition of a text."""
    return re.split(r"\bwhere\b", text, maxsplit=1)[-1] if "where" in text else ""


def test_no_condition_calls_what_is_volatile(connection: psycopg.Connection[Any]) -> None:
    """It would be called for every row, and no shard could be chosen by it."""
    said = connection.execute("select distinct proname from pg_proc where provolatile = 'v'")
    volatile = {name for (name,) in said.fetchall()}
    assert {"ledger_pos_of", "ledger_clock"} <= volatile
    for name, text in TEXTS.items():
        if name.split()[0] not in PLANNED:
            assert not volatile & {*_CALL.findall(conditions(text))}, text


def test_the_other_driver_understands_them_too(postgres_places: Places) -> None:
    async def prepare_all(url: str) -> None:
        settings = {"search_path": "ledgerstone"}
        connection = await asyncpg.connect(url, server_settings=settings)
        try:
            for text in TEXTS.values():
                await connection.prepare(text)
        finally:
            await connection.close()

    asyncio.run(prepare_all(postgres_places.fresh()))


def test_the_schema_may_have_any_name(postgres_places: Places) -> None:
    url = postgres_places.blank()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute('create schema "Odd name"')
        connection.execute('set search_path to "Odd name"')
        for step in migrations("postgres"):
            connection.execute(step.text)
        for text in functions():
            connection.execute(text)
        connection.execute("set search_path to public")
        row = connection.execute(
            """select b.moment_us from "Odd name".ledger_begin('t', '{s}', '{r}', '{i}', '{e}',
               '{d}', '{a}', '{b}', 7) b"""
        ).fetchone()
        assert row == (7,)


def test_functions_may_be_applied_again(connection: psycopg.Connection[Any]) -> None:
    for text in functions():
        connection.execute(text)
