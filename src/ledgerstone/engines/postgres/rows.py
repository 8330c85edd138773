"""The rows of one tenant in PostgreSQL, as handlers ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec

from ledgerstone.engines.postgres.statements import statements_of
from ledgerstone.engines.statements import quoted
from ledgerstone.sql.catalogue import load
from ledgerstone.tables.sessions import HEADS, SESSIONS, SESSIONS_BY_ID, SessionRow
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.transaction import UNKNOWN, Range, T

R = TypeVar("R", bound=msgspec.Struct)


class Asking(Protocol):
    """A connection, and how long its statements may take."""

    async def fetch(self, text: str, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
        """All rows of one statement."""
        ...


async def ask(asking: Asking, name: str, *bound: Any) -> list[tuple[Any, ...]]:
    """The rows of a named statement."""
    return await asking.fetch(load("postgres")[name].text, bound)


@cache
def session_and_head() -> str:
    """A session by its id, and its head with it."""
    columns = [f"s.{quoted(name)}" for name in SESSIONS.columns]
    columns += [f"h.{quoted(name)}" for name in HEADS.columns]
    return (
        f"select {', '.join(columns)} from sessions s "
        "left join heads h on h.number = s.number and h.tenant = $1 "
        "where s.tenant = $1 and s.id = $2"
    )


class PostgresRows:
    """What the tables hold, over one connection; rows found by their keys are remembered."""

    def __init__(self, asking: Asking, tenant: str) -> None:
        self.asking = asking
        self.tenant = tenant
        self.seen: dict[Table[Any], dict[Key, Any]] = {}
        """Rows by key; None where there is none."""
        self._sessions: dict[Key, SessionRow | None] = {}

    async def load(self, table: Table[R], key: Key) -> R | None:
        row = self._known(table).get(key, UNKNOWN)
        if row is UNKNOWN:
            texts = statements_of(table)
            row = await self._one(table, texts.load, texts.stored_key(key))
            self._known(table)[key] = row
        return row  # type: ignore[no-any-return]

    async def load_many(self, table: Table[R], keys: Sequence[Key]) -> list[R | None]:
        known = self._known(table)
        missing = list(dict.fromkeys(key for key in keys if key not in known))
        if missing:
            texts = statements_of(table)
            bound = texts.arrays(texts.key, [texts.stored_key(key) for key in missing])
            rows = [table.row(*values) for values in await self.fetch(texts.many, bound)]
            found = {table.key_of(row): row for row in rows}
            known.update((key, found.get(key)) for key in missing)
        return [known[key] for key in keys]

    async def find(self, index: Index[R], key: Key) -> R | None:
        if index is index.table.primary:
            return await self.load(index.table, key)
        if index is SESSIONS_BY_ID:
            return await self._find_session(key)  # type: ignore[return-value]
        row = await self._one(index.table, statements_of(index.table).find(index), key)
        if row is not None:
            self._known(index.table)[index.table.key_of(row)] = row
        return row

    async def range(self, wanted: Range[T]) -> list[T]:
        found: list[Any] = await self._fetch_range(wanted)
        if wanted.columns is not None:
            return found
        table = wanted.index.table
        rows = [table.row(*values) for values in found]
        self._known(table).update((table.key_of(row), row) for row in rows)
        return rows

    async def _fetch_range(self, wanted: Range[Any]) -> list[tuple[Any, ...]]:
        return await self.fetch(*statements_of(wanted.index.table).range(wanted))

    async def last_serial(self, table: Table[Any]) -> int:
        return (await self.fetch(statements_of(table).last, ()))[0][0] or 0

    def number(self) -> int:
        raise TypeError("sessions are made by commands")

    async def fetch(self, text: str, bound: Sequence[Any]) -> list[tuple[Any, ...]]:
        """All rows of a statement; the tenant is what it binds first."""
        return await self.asking.fetch(text, (self.tenant, *bound))

    async def _find_session(self, key: Key) -> SessionRow | None:
        """A session, and its head with it: who asks for the one goes on to ask for the other."""
        if key not in self._sessions:
            rows = await self.fetch(session_and_head(), key[1:]) if key[0] == self.tenant else []
            self._sessions[key] = self._note(rows[0]) if rows else None
        return self._sessions[key]

    def _note(self, values: tuple[Any, ...]) -> SessionRow:
        size = len(SESSIONS.columns)
        session = SessionRow(*values[:size])
        place = (session.number,)
        self._known(SESSIONS)[place] = session
        head = None if values[size] is None else HEADS.row(*values[size:])
        self._known(HEADS).setdefault(place, head)
        return session

    async def _one(self, table: Table[R], text: str, bound: Key) -> R | None:
        rows = await self.fetch(text, bound)
        return table.row(*rows[0]) if rows else None

    def _known(self, table: Table[Any]) -> dict[Key, Any]:
        return self.seen.setdefault(table, {})
