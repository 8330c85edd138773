"""For who runs the database: the schema's version, its migration, the rights of a role."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, TypeVar

import msgspec

from ledgerstone.clock import Clock, SystemClock
from ledgerstone.engines.postgres.drivers.errors import FOREIGN, translate
from ledgerstone.engines.postgres.drivers.port import PgConnection, Row, ServerSaid
from ledgerstone.engines.postgres.drivers.urls import SCHEMA, Target, check_schema, parse_target
from ledgerstone.engines.postgres.opening import (
    DIALECT,
    has_our_functions,
    migrate,
    migrate_in,
    read_version,
    script_after,
)
from ledgerstone.engines.postgres.transaction import in_transaction
from ledgerstone.errors import InvalidValue, LedgerstoneError, NotSupported, SchemaTooNew
from ledgerstone.sql.catalogue import parse
from ledgerstone.sql.migrate import newest
from ledgerstone.sql.texts import sql_files
from ledgerstone.trampoline import run_now

T = TypeVar("T")
_OUR_OWN = ("P0001", "55000")
"""What functions of ours refuse, with the reason and the next step."""
_NO_SUCH_ROLE = "42704"
_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$-]{0,62}\Z")


class Found(NamedTuple):
    """The version of a store's schema, the one this program needs, and whether it is all its own.

    `ours`: the functions are those of this program too.
    """

    version: int
    wanted: int
    ours: bool


def versions(url: str) -> Found:
    """What a database has."""
    target = parse_target(url)

    async def look(connection: PgConnection) -> Found:
        return await _found(connection, target)

    return with_connection(target, look)


def migrate_store(url: str, role: str | None = None) -> Found:
    """Carry out what is missing; answers what was found."""
    target = parse_target(url)
    rights = "" if role is None else rights_of(role, target.schema)

    async def work(connection: PgConnection) -> Found:
        found = await _found(connection, target)
        await migrate(connection, target.schema)
        if rights:
            await connection.script(rights, target.statement_timeout_s)
        return found

    return with_connection(target, work)


async def _found(connection: PgConnection, target: Target) -> Found:
    limit_s = target.statement_timeout_s
    version = await read_version(connection, target.schema, limit_s)
    ours = version == newest(DIALECT) and await has_our_functions(connection, limit_s)
    return Found(version, newest(DIALECT), ours)


def migration_script(url: str, since: int | None = None, role: str | None = None) -> str:
    """The SQL that `migrate_store` would run; with `since` the database is not asked."""
    there = versions(url) if since is None else Found(since, newest(DIALECT), ours=True)
    found = there.version
    if not 0 <= found <= newest(DIALECT):
        raise SchemaTooNew("the schema", found, newest(DIALECT))
    schema = parse_target(url).schema
    rights = "" if role is None else rights_of(role, schema)
    if found == newest(DIALECT) and there.ours and not rights:
        return f"-- the schema has version {found}: nothing to do\n"
    return script_after(schema, found) + rights


def rights_of(role: str, schema: str) -> str:
    """What a role needs that may see one tenant at a time."""
    if not _ROLE.match(role):
        raise InvalidValue("role", f"{role!r} is no name of a role")
    texts = [text for _, text in sql_files("roles", DIALECT)]
    return "\n".join(texts).replace("{role}", f'"{role}"').replace("{schema}", f'"{schema}"')


def migrate_within(connection: object, schema: str = SCHEMA) -> int:
    """Make or migrate a schema in a transaction of yours; answers the version that was found.

    `connection` is psycopg's, in a transaction; what it does is undone when you roll back.
    """
    from ledgerstone.engines.postgres.drivers.psycopg import join_blocking

    check_schema(schema)
    return run_now(_translated(migrate_in(join_blocking(connection), schema), schema))


async def amigrate_within(connection: object, schema: str = SCHEMA) -> int:
    """The same for a connection of an event loop: asyncpg's, or psycopg's."""
    from ledgerstone.engines.postgres.drivers.asyncpg import join_asyncpg
    from ledgerstone.engines.postgres.drivers.psycopg import join_async

    check_schema(schema)
    joined = join_asyncpg(connection) or join_async(connection)
    return await _translated(migrate_in(joined, schema), schema)


async def _translated(work: Coroutine[Any, Any, T], where: str) -> T:
    try:
        return await work
    except LedgerstoneError:
        raise
    except FOREIGN as error:
        if isinstance(error, ServerSaid) and error.sqlstate in _OUR_OWN:
            raise NotSupported(error.message, where) from error
        if isinstance(error, ServerSaid) and error.sqlstate == _NO_SUCH_ROLE:
            raise InvalidValue("role", f"{error.message}; CREATE ROLE makes one") from error
        raise translate(error, where) from error


def with_connection(target: Target, work: Callable[[PgConnection], Coroutine[Any, Any, T]]) -> T:
    """Do it on a connection of its own; errors of ours."""
    from ledgerstone.engines.postgres.connections import blocking_driver

    async def connected() -> T:
        connection = await blocking_driver(target).connect(target.connect_timeout_s)
        try:
            return await work(connection)
        finally:
            connection.drop()

    return run_now(_translated(connected(), target.shown))


TIMEOUT_S = 3600.0


class Partitions(msgspec.Struct, frozen=True):
    """What was done, and the partitions that there are now, with the end of each (None: none)."""

    divided: bool
    made: int
    dropped: int
    names: list[tuple[str, int | None]]


def partition(
    url: str, *, months: int, older_us: int | None = None, clock: Clock | None = None
) -> Partitions:
    """Divide what is whole, make the next months, drop those in which all is older."""
    target = parse_target(url)
    now_us = (clock or SystemClock()).now_us()
    return with_connection(target, lambda one: _work(one, target, months, older_us, now_us))


async def _work(
    connection: PgConnection, target: Target, months: int, older_us: int | None, now_us: int
) -> Partitions:
    files = dict(sql_files("partitions"))
    texts = {one.name: one.text for one in parse(files["queries.sql"], "$")}

    async def ask(name: str, *given: int) -> list[Row]:
        return await connection.fetch(texts[name], given, TIMEOUT_S)

    async with in_transaction(connection, TIMEOUT_S):
        await connection.script(files["postgres.sql"], TIMEOUT_S)
        divided = (await ask("part_evidence", now_us))[0][0]
        made = (await ask("next_months", now_us, months))[0][0]
        dropped: list[Row] = (
            [(0,)] if older_us is None else await ask("drop_months", older_us, now_us)
        )
        names = await ask("partitions")
    return Partitions(divided, made, dropped[0][0], [(name, upto) for name, upto in names])
