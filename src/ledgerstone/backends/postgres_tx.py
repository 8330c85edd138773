"""The transaction that handlers await on PostgreSQL: named statements over one connection."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from ledgerstone.backends.postgres_many import ManyInsert, in_chunks
from ledgerstone.backends.postgres_port import DeadlineOver, PgConnection
from ledgerstone.clock import monotonic_s
from ledgerstone.sql.catalogue import Statement, load
from ledgerstone.sql.tx import Row

_LOCKING = {
    "find_head": "lock_head",
    "find_commit": "lock_head",
    "session_at": "lock_number",
}
"""Statements that read a head, and what locks it first."""


class PgTx:
    """Every statement is one round trip; all of them end before the deadline.

    `locked`: None in a transaction that reads. In one that writes, the sessions whose heads are
    locked already; a handler that asks for another one gets it locked before it is read. `made`:
    number, fence and time of the head that was made last.
    """

    __slots__ = ("_connection", "_statements", "ends_s", "locked", "made", "now_us")

    def __init__(
        self, connection: PgConnection, ends_s: float, locked: Iterable[str] | None = None
    ) -> None:
        self._connection = connection
        self._statements = statements()
        self.ends_s = ends_s
        self.locked = None if locked is None else set[Any](locked)
        self.made: Row | None = None
        self.now_us = 0

    async def one(self, query: str, *arguments: Any) -> Row | None:
        if self.locked is not None and query in _LOCKING:
            await self._lock(query, arguments)
        rows = await self.all(query, *arguments)
        return rows[0] if rows else None

    async def all(self, query: str, *arguments: Any) -> list[Row]:
        text = self._statements[query].text
        return await self._connection.fetch(text, arguments, self.left_s())

    async def run(self, query: str, *arguments: Any) -> int:
        text = self._statements[query].text
        if query == "insert_head":
            self.made = arguments
        return await self._connection.run(text, arguments, self.left_s())

    async def many(self, query: str, rows: Iterable[Row]) -> int:
        changed, given = 0, list(rows)
        insert = _many_insert(query) if len(given) > 1 else None
        if insert is None or not insert.fits(given):
            for row in given:
                changed += await self.run(query, *row)
            return changed
        for part in in_chunks(given):
            text, columns = insert.call(part)
            changed += await self._connection.run(text, columns, self.left_s())
        return changed

    async def among(self, query: str, values: list[str], *arguments: Any) -> list[Row]:
        return await self.all(query, *arguments, values)

    async def pick(self, query: str, **given: Any) -> list[Row]:
        known = frozenset(name for name, value in given.items() if value is not None)
        text, bound = self._statements[query].variant(known)
        arguments = tuple(given[name] for name in bound)
        return await self._connection.fetch(text, arguments, self.left_s())

    async def _lock(self, query: str, arguments: tuple[Any, ...]) -> None:
        """The head that is about to be read: nobody moves it before we end."""
        assert self.locked is not None
        lock = _LOCKING[query]
        key = arguments[1] if lock == "lock_head" else arguments[0]
        if key not in self.locked:
            await self.all(lock, *arguments[: 2 if lock == "lock_head" else 1])
            self.locked.add(key)

    def left_s(self) -> float:
        """How long the next statement may take."""
        left_s = self.ends_s - monotonic_s()
        if left_s <= 0:
            self._connection.drop()
            raise DeadlineOver("the time for this call is over")
        return left_s


@cache
def _many_insert(query: str) -> ManyInsert | None:
    return ManyInsert.of(statements()[query].text)


@cache
def statements() -> dict[str, Statement]:
    return load("postgres")
