"""For who runs the database: the schema's version, its migration, the rights of a role."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ledgerstone.backends.postgres_errors import FOREIGN, translate
from ledgerstone.backends.postgres_port import PgConnection
from ledgerstone.backends.postgres_schema import (
    DIALECT,
    migrate,
    read_version,
    script_after,
)
from ledgerstone.backends.postgres_urls import Target, parse_target
from ledgerstone.errors import InvalidValue, LedgerstoneError, SchemaTooNew
from ledgerstone.sql.migrate import newest
from ledgerstone.sql.texts import sql_files
from ledgerstone.trampoline import run_now

T = TypeVar("T")
_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$-]{0,62}\Z")


def versions(url: str) -> tuple[int, int]:
    """The version of a store's schema, and the one this program needs."""
    target = parse_target(url)

    async def look(connection: PgConnection) -> int:
        return await read_version(connection, target.schema, target.statement_timeout_s)

    return _with_connection(target, look), newest(DIALECT)


def migrate_store(url: str, role: str | None = None) -> tuple[int, int]:
    """Carry out what is missing; the version that was found, and the one that is there now."""
    target = parse_target(url)
    rights = "" if role is None else rights_of(role)

    async def work(connection: PgConnection) -> int:
        found = await migrate(connection, target.schema)
        if rights:
            await connection.script(rights, target.statement_timeout_s)
        return found

    return _with_connection(target, work), newest(DIALECT)


def migration_script(url: str, since: int | None = None, role: str | None = None) -> str:
    """The SQL that `migrate_store` would run; with `since` the database is not asked."""
    found = versions(url)[0] if since is None else since
    if not 0 <= found <= newest(DIALECT):
        raise SchemaTooNew("the schema", found, newest(DIALECT))
    rights = "" if role is None else rights_of(role)
    if found == newest(DIALECT) and not rights:
        return f"-- the schema has version {found}: nothing to do\n"
    return script_after(parse_target(url).schema, found) + rights


def rights_of(role: str) -> str:
    """What a role needs that may see one tenant at a time."""
    if not _ROLE.match(role):
        raise InvalidValue("role", f"{role!r} is no name of a role")
    texts = [text for _, text in sql_files("roles", DIALECT)]
    return "\n".join(texts).replace("{role}", f'"{role}"')


def _with_connection(target: Target, work: Callable[[PgConnection], Coroutine[Any, Any, T]]) -> T:
    from ledgerstone.backends.postgres import blocking_driver

    async def connected() -> T:
        connection = await blocking_driver(target).connect(target.connect_timeout_s)
        try:
            return await work(connection)
        finally:
            connection.drop()

    try:
        return run_now(connected())
    except LedgerstoneError:
        raise
    except FOREIGN as error:
        raise translate(error, target.shown) from error
