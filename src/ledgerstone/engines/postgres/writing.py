"""The rows of a command: heads are locked before they are read, writes go out together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from ledgerstone.engines.postgres.drivers.port import Ints
from ledgerstone.engines.postgres.locks import MAKING
from ledgerstone.engines.postgres.rows import Asking, PostgresRows, ask
from ledgerstone.engines.postgres.statements import Statements, numbered, statements_of
from ledgerstone.tables.sessions import HEADS, SESSIONS, SESSIONS_BY_ID, SESSIONS_BY_PARENT
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.transaction import UNKNOWN, Range, Tx

R = TypeVar("R", bound=msgspec.Struct)

_SWEPT = "ledger_mark_swept()"


class NumberWanted(Exception):
    """A session is made, and its number has to be asked for: the handler runs once more."""


class Write(NamedTuple):
    """A statement without an answer, with a `?` for each value that it binds."""

    text: str
    bound: Sequence[Any]


class WritingRows(PostgresRows):
    """Rows within the transaction of one command.

    `locked`: numbers of the heads that are locked already; `named`: ids of sessions whose heads
    are, if there are such sessions.
    """

    def __init__(
        self, asking: Asking, tenant: str, locked: Sequence[int], named: Sequence[str]
    ) -> None:
        super().__init__(asking, tenant)
        self._locked = set(locked)
        self._named = set(named)
        self._numbers: list[int] = []
        self._wanted = 0

    async def load(self, table: Table[R], key: Key) -> R | None:
        if table is HEADS:
            await self._lock([key[0]])
        return await super().load(table, key)

    async def load_many(self, table: Table[R], keys: Sequence[Key]) -> list[R | None]:
        if table is HEADS:
            await self._lock([key[0] for key in keys])
        return await super().load_many(table, keys)

    async def find(self, index: Index[R], key: Key) -> R | None:
        if index is SESSIONS_BY_ID and key[1] not in self._named:
            self._named.add(key[1])
            if not await self._lock_session(key[1]):
                # One that is not there stays so; unless it was made before that could be said.
                await ask(self.asking, "lock_name", self.tenant, MAKING + key[1])
                await self._lock_session(key[1])
        return await super().find(index, key)

    async def _fetch_range(self, wanted: Range[Any]) -> list[tuple[Any, ...]]:
        """Children are changed with their parent: their heads are locked, and they read again."""
        found = await super()._fetch_range(wanted)
        if wanted.index is SESSIONS_BY_PARENT:
            place = (wanted.columns or SESSIONS.columns).index("number")
            while await self._lock([row[place] for row in found]):
                found = await super()._fetch_range(wanted)
        return found

    async def _lock_session(self, id: str) -> bool:
        """Whether it is there; nobody else moves it before the transaction ends."""
        rows = await ask(self.asking, "lock_session", self.tenant, id)
        self._locked.update(number for (number,) in rows)
        return bool(rows)

    async def _lock(self, numbers: Sequence[int]) -> bool:
        """The same of several by number; whether some had to be locked."""
        missing = [number for number in numbers if number not in self._locked]
        if missing:
            await ask(self.asking, "lock_numbers", self.tenant, Ints(missing))
            self._locked.update(missing)
        return bool(missing)

    def number(self) -> int:
        if not self._numbers:
            raise NumberWanted
        return self._numbers.pop()

    async def more_numbers(self) -> None:
        """Numbers for sessions to be made: twice as many each time."""
        self._wanted = 2 * self._wanted or 1
        rows = await ask(self.asking, "new_numbers", self._wanted)
        self._numbers = [number for (number,) in reversed(rows)]

    async def flush(self, tx: Tx) -> None:
        """Carry out what a handler wrote: rows leave before others come; sums that move last."""
        drops, writes, adds = list[Write](), list[Write](), list[Write]()
        for table, written in tx.writes.items():
            new = tx.inserted.get(table, frozenset[Key]())
            self._sort(table, written, new, drops, writes)
        for table, summed in tx.adds.items():
            rows = [statements_of(table).values(row) for row in summed.values()]
            add = _write(statements_of(table), statements_of(table).add, rows)
            (adds if table in tx.writes else writes).append(add)
        swept = any(table.serial for table in tx.writes)
        for step in (drops, writes, adds):
            if step:
                await self._send(step, _SWEPT if swept and step is drops else "1")

    def _sort(
        self,
        table: Table[Any],
        written: dict[Key, Any],
        new: set[Key] | frozenset[Key],
        drops: list[Write],
        writes: list[Write],
    ) -> None:
        """What becomes of each row of a table, given what is known of those that are there."""
        texts, seen = statements_of(table), self.seen.get(table, {})
        gone, inserts, updates, puts = list[Key](), list[Key](), list[Key](), list[Key]()
        for key, row in written.items():
            old = seen.get(key, UNKNOWN)
            if row is None:
                gone.append(texts.stored_key(key))
            elif key in new or old is None or (table.serial and key[0] < 0):
                inserts.append(texts.values(row))
            elif old is UNKNOWN and not table.serial:
                puts.append(texts.values(row))
            elif old is UNKNOWN or texts.keeps_places(old, row):
                updates.append(texts.values(row))
            else:
                gone.append(texts.stored_key(key))
                inserts.append(texts.values(row))
        if gone:
            drops.append(Write(texts.delete, texts.arrays(texts.key, gone)))
        for text, rows in ((texts.update, updates), (texts.insert, inserts), (texts.put, puts)):
            if rows and text:
                writes.append(_write(texts, text, rows))

    async def _send(self, writes: list[Write], answer: str) -> None:
        """In one round trip: no statement of them sees what another one does."""
        bound, parts = list[Any](), list[str]()
        for write in writes:
            parts.append(f"w{len(parts)} as ({numbered(write.text, len(bound) + 1)})")
            bound += write.bound
        await self.fetch(f"with {', '.join(parts)} select {answer}", bound)


def _write(texts: Statements, text: str, rows: list[Key]) -> Write:
    if len(rows) == 1:
        return Write(texts.of_one[text], rows[0])
    return Write(text, texts.arrays(texts.names, rows))
