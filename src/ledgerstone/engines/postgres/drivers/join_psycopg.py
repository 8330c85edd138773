"""A psycopg connection that belongs to the caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from ledgerstone.engines.postgres.drivers.port import PgConnection, Row
from ledgerstone.engines.postgres.drivers.psycopg import PsycopgConnection, has_rows, teach
from ledgerstone.errors import InvalidValue


class _Cursor(psycopg.RawCursor[Row]):
    """Values travel as ours do, whatever the caller's connection was taught."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        super().__init__(raw, row_factory=tuple_row)
        self._adapters = AdaptersMap(psycopg.adapters)
        teach(self._adapters)


class _AsyncCursor(psycopg.AsyncRawCursor[Row]):
    def __init__(self, raw: psycopg.AsyncConnection[Any]) -> None:
        super().__init__(raw, row_factory=tuple_row)
        self._adapters = AdaptersMap(psycopg.adapters)
        teach(self._adapters)


class JoinedPsycopg(PsycopgConnection):
    """The blocking one. It is never dropped: that is the caller's to do."""

    def __init__(self, raw: Any) -> None:
        super().__init__(raw, prepare=False)
        self._cursor = _Cursor(raw)

    def drop(self) -> None:
        return


class JoinedAsyncPsycopg(JoinedPsycopg):
    """The one of an event loop."""

    def __init__(self, raw: Any) -> None:
        super().__init__(raw)
        self._waiting = _AsyncCursor(raw)

    async def fetch(self, text: str, arguments: Sequence[Any], timeout_s: float) -> list[Row]:
        await self._wait(text, arguments)
        return await self._waiting.fetchall() if has_rows(self._waiting) else []

    async def script(self, text: str, timeout_s: float) -> None:
        await self._wait(text, None)

    async def _wait(self, text: str, arguments: Sequence[Any] | None) -> None:
        binary = arguments is not None
        try:
            await self._waiting.execute(text, arguments, prepare=False, binary=binary)
        except psycopg.Error as error:
            raise self._judge(error) from error


def join_blocking(connection: object) -> PgConnection:
    """InvalidValue for anything but a psycopg.Connection that is in a transaction."""
    if not isinstance(connection, psycopg.Connection):
        raise InvalidValue(
            "connection", f"a psycopg.Connection expected, got {type(connection).__name__}"
        )
    _check_transaction(connection)
    return JoinedPsycopg(connection)


def join_async(connection: object) -> PgConnection:
    """The same for a psycopg.AsyncConnection."""
    if not isinstance(connection, psycopg.AsyncConnection):
        raise InvalidValue(
            "connection",
            "an asyncpg.Connection or a psycopg.AsyncConnection expected, got "
            f"{type(connection).__name__}",
        )
    _check_transaction(connection)
    return JoinedAsyncPsycopg(connection)


def _check_transaction(raw: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if raw.closed:
        raise InvalidValue("connection", "it is closed")
    status = raw.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise InvalidValue("connection", "its transaction has failed; roll it back first")
    # Without autocommit the first statement begins a transaction by itself.
    if status == TransactionStatus.IDLE and raw.autocommit:
        raise InvalidValue("connection", "it is in no transaction; begin one first")
    if status == TransactionStatus.ACTIVE:
        raise InvalidValue("connection", "it is in use")
