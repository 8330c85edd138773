"""A transaction on a connection: statements that all have to end before the same deadline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.drivers.port import DeadlineOver, PgConnection, Row
from ledgerstone.sql.catalogue import load


class PgTx:
    """Every statement is one round trip."""

    __slots__ = ("_connection", "ends_s")

    def __init__(self, connection: PgConnection, ends_s: float) -> None:
        self._connection = connection
        self.ends_s = ends_s

    async def one(self, query: str, *arguments: Any) -> Row | None:
        """The first row of a named statement."""
        rows = await self.all(query, *arguments)
        return rows[0] if rows else None

    async def all(self, query: str, *arguments: Any) -> list[Row]:
        """All rows of a named statement."""
        return await self.fetch(load("postgres")[query].text, arguments)

    async def fetch(self, text: str, arguments: Sequence[Any]) -> list[Row]:
        """All rows of a statement."""
        return await self._connection.fetch(text, arguments, self.left_s())

    def left_s(self) -> float:
        """How long the next statement may take."""
        left_s = self.ends_s - monotonic_s()
        if left_s <= 0:
            self._connection.drop()
            raise DeadlineOver("the time for this call is over")
        return left_s


@asynccontextmanager
async def in_transaction(connection: PgConnection, timeout_s: float) -> AsyncIterator[None]:
    """Commit what the block does; roll it back when it raises."""
    await connection.script("BEGIN", timeout_s)
    try:
        yield
        await connection.script("COMMIT", timeout_s)
    except BaseException:
        if connection.is_open:
            await connection.script("ROLLBACK", timeout_s)
        raise
