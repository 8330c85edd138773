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

from ledgerstone.sql import catalogue
from ledgerstone.sql.catalogue import Statement, load
from ledgerstone.sql.migrate import functions, migrations
from ledgerstone.testing.servers.places import Places
from tests.backends.statement_variants import variants

# bigint, text, bytea; text[], varchar[], bigint[], bytea[]; jsonb, which is text to both drivers;
# xid, which is a whole number to them.
KNOWN_TYPES = {20, 25, 17, 1009, 1015, 1016, 1001, 3802, 28}
# Role, run and count of new rows are short: integer and smallint.
NARROW_TYPES = {23, 21}
NARROW_ROWS = re.compile(r"insert into (nodes|turns) ")


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


@pytest.mark.parametrize("name", sorted(load("postgres")))
def test_every_variant_is_understood(connection: psycopg.Connection[Any], name: str) -> None:
    for text in variants(load("postgres")[name], pairs=True):
        complaint, types = prepare(connection, text)
        assert complaint == "", f"{text}\n{complaint}"
        narrow = NARROW_TYPES if NARROW_ROWS.match(text) else set()
        assert set(types) <= KNOWN_TYPES | narrow, f"{text}\n{types}"


@pytest.mark.parametrize("name", sorted(load("postgres")))
def test_no_parameter_is_left_out(name: str) -> None:
    """Gaps in the numbers would be parameters that nobody can give a type."""
    for text in variants(load("postgres")[name]):
        used = {int(number) for number in re.findall(r"\$(\d+)", text)}
        assert used == set(range(1, len(used) + 1)), text


def test_the_other_driver_understands_them_too(postgres_places: Places) -> None:
    async def prepare_all(url: str) -> None:
        settings = {"search_path": "ledgerstone"}
        connection = await asyncpg.connect(url, server_settings=settings)
        try:
            for statement in load("postgres").values():
                for text in variants(statement):
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
        for text in functions("postgres"):
            connection.execute(text)
        connection.execute("set search_path to public")
        row = connection.execute(
            """select b.moment_us from "Odd name".ledger_begin('t', '{s}', '{r}', '{i}', '{e}',
               '{a}', '{b}', 7) b"""
        ).fetchone()
        assert row == (7,)


def test_functions_may_be_applied_again(connection: psycopg.Connection[Any]) -> None:
    for text in functions("postgres"):
        connection.execute(text)


def _statements(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> dict[str, Statement]:
    def sql_files(*folder: str) -> list[tuple[str, str]]:
        return [("x.sql", files.get("/".join(folder), ""))]

    monkeypatch.setattr(catalogue, "sql_files", sql_files)
    return catalogue.load.__wrapped__("postgres")


SHARED = "-- name: look(a, b)\nselect :a, :b\n"


def test_an_override_has_the_name_and_the_arguments_of_a_shared_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    same = "-- name: look(a, b)\nselect :b, :a\n"
    found = _statements(monkeypatch, {"queries/": SHARED, "queries/postgres": same})
    assert found["look"].text == "select $2, $1"
    for other in ("-- name: look(b, a)\nselect :b, :a\n", "-- name: see(a)\nselect :a\n"):
        with pytest.raises(ValueError, match="no shared query"):
            _statements(monkeypatch, {"queries/": SHARED, "queries/postgres": other})


def test_what_only_one_database_is_asked_has_a_name_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = "-- name: see(a)\nselect :a\n"
    found = _statements(monkeypatch, {"queries/": SHARED, "queries/postgres_own": own})
    assert found["see"].text == "select $1"
    with pytest.raises(ValueError, match="two queries are named look"):
        _statements(monkeypatch, {"queries/": SHARED, "queries/postgres_own": SHARED})
