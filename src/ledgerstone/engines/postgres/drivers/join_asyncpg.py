"""An asyncpg connection that belongs to the caller."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from ledgerstone.engines.postgres.drivers.asyncpg import AsyncpgConnection
from ledgerstone.engines.postgres.drivers.port import PgConnection, Row, from_column, to_column
from ledgerstone.errors import InvalidValue


class JoinedAsyncpg(AsyncpgConnection):
    """Values are translated here: a codec would stay on the caller's connection.

    It is never dropped: that is the caller's to do.
    """

    async def fetch(self, text: str, arguments: Sequence[Any], timeout_s: float) -> list[Row]:
        rows = await super().fetch(text, _out(arguments), timeout_s)
        return [tuple(map(_in, row)) for row in rows]

    def drop(self) -> None:
        return


def _out(arguments: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in arguments:
        if isinstance(value, str):
            found.append(to_column(value))
        elif isinstance(value, list | tuple):
            found.append(_out(value))
        else:
            found.append(value)
    return found


def _in(value: Any) -> Any:
    if isinstance(value, str):
        return from_column(value)
    return int(value) if isinstance(value, Decimal) else value


def join_asyncpg(connection: object) -> PgConnection | None:
    """None when it is none of asyncpg's; InvalidValue when it is in no transaction."""
    if not isinstance(connection, asyncpg.Connection | PoolConnectionProxy):
        return None
    if connection.is_closed():
        raise InvalidValue("connection", "it is closed")
    if not connection.is_in_transaction():
        raise InvalidValue("connection", "it is in no transaction; begin one first")
    return JoinedAsyncpg(connection)
