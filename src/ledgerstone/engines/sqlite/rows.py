"""The rows of a SQLite file, as handlers ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import apsw
import msgspec

from ledgerstone.engines.sqlite.statements import MANY_MAX, Statements, quoted
from ledgerstone.tables.sessions import HEADS, SESSIONS, SESSIONS_BY_ID, SessionRow
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.transaction import Range, T

R = TypeVar("R", bound=msgspec.Struct)

statements_of = cache(Statements)
"""The texts of a table."""


@cache
def _session_and_head() -> str:
    columns = [f"s.{quoted(name)}" for name in SESSIONS.columns]
    columns += [f"h.{quoted(name)}" for name in HEADS.columns]
    return (
        f"select {', '.join(columns)} from sessions s indexed by sessions_id "
        "left join heads h on h.number = s.number where s.tenant = ? and s.id = ?"
    )


class SqliteRows:
    """What the file holds, within the transaction that its connection has open."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self._execute = connection.execute
        self._heads: dict[Key, Key] = {}
        """Heads that came along with their session, as values."""

    def begin(self) -> None:
        """A transaction has begun."""
        self._heads.clear()

    async def load(self, table: Table[R], key: Key) -> R | None:
        if table is HEADS and (values := self._heads.get(key)) is not None:
            return table.row(*values)
        texts = statements_of(table)
        values = self._execute(texts.load, texts.stored_key(key)).fetchone()
        return None if values is None else table.row(*values)

    async def load_many(self, table: Table[R], keys: Sequence[Key]) -> list[R | None]:
        found = self._load_all(table, keys)
        return [found.get(key) for key in keys]

    async def find(self, index: Index[R], key: Key) -> R | None:
        if index is index.table.primary:
            return await self.load(index.table, key)
        if index is SESSIONS_BY_ID:
            return self._find_session(key)  # type: ignore[return-value]
        values = self._execute(statements_of(index.table).find(index), key).fetchone()
        return None if values is None else index.table.row(*values)

    async def range(self, wanted: Range[T]) -> list[T]:
        return self._find_range(wanted)

    async def last_serial(self, table: Table[Any]) -> int:
        return self._execute(statements_of(table).last).get or 0

    def number(self) -> int:
        raise apsw.ReadOnlyError("sessions are made by the writer")

    def _find_session(self, key: Key) -> SessionRow | None:
        """A session, and its head with it: who asks for the one goes on to ask for the other."""
        values = self._execute(_session_and_head(), key).fetchone()
        if values is None:
            return None
        size = len(SESSIONS.columns)
        if values[size] is not None:
            self._heads[values[:1]] = values[size:]
        return SessionRow(*values[:size])

    def _find_range(self, wanted: Range[T]) -> list[T]:
        table = wanted.index.table
        found: list[Any] = self._execute(*statements_of(table).range(wanted)).fetchall()
        return found if wanted.columns is not None else [table.row(*values) for values in found]

    def _load_all(self, table: Table[R], keys: Sequence[Key]) -> dict[Key, R]:
        """The rows that are there, by their keys; a statement for up to 64 of them."""
        texts, found = statements_of(table), dict[Key, R]()
        for first in range(0, len(keys), MANY_MAX):
            chunk = [texts.stored_key(key) for key in keys[first : first + MANY_MAX]]
            # Few texts: so many places as the next power of two, the last key again in the rest.
            size = 1 << (len(chunk) - 1).bit_length()
            chunk += chunk[-1:] * (size - len(chunk))
            bound = [value for key in chunk for value in key]
            for values in self._execute(texts.many(size), bound):
                row = table.row(*values)
                found[table.key_of(row)] = row
        return found
