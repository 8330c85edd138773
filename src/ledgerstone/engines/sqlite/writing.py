"""The rows of a SQLite file for its writer, and those that wait to be written, table by table.

A command that is refused has written nothing, since its writes are rows in dictionaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import apsw
import msgspec

from ledgerstone.engines.sqlite.rows import SqliteRows, statements_of
from ledgerstone.engines.sqlite.statements import Statements
from ledgerstone.engines.sqlite.table_buffer import KeyTaken, NotTaken, TableBuffer
from ledgerstone.tables.graph import NODES, NodeRow
from ledgerstone.tables.runs import KEPT_RUNS
from ledgerstone.tables.schema import TABLES
from ledgerstone.tables.sessions import HEADS, PURGED, SESSIONS, SESSIONS_BY_ID, STUBS
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.transaction import UNKNOWN, Range, T, Tx, added
from ledgerstone.tables.usage import BUDGETS, USAGE_DAYS

R = TypeVar("R", bound=msgspec.Struct)

NUMBERED: tuple[Table[Any], ...] = (SESSIONS, HEADS, PURGED)
"""Where the numbers of sessions are kept."""
REFUSED = (
    apsw.ConstraintError, apsw.MismatchError, apsw.TooBigError,
    MemoryError, OverflowError, TypeError, ValueError,
)  # fmt: skip
"""What is raised for values that SQLite does not take; all else is the fault of disk or file."""


REMEMBERED: frozenset[Table[Any]] = frozenset((SESSIONS, HEADS, USAGE_DAYS))
"""Tables whose rows are small, and looked at by most commands."""
REMEMBERED_MAX = 4096
"""Maximum rows of a table that are remembered after a transaction."""
SMALL_BYTES = 2048
OFTEN_EMPTY: frozenset[Table[Any]] = frozenset((BUDGETS, KEPT_RUNS, STUBS))
"""Tables that most commands look at and few stores use."""


class WritingRows(SqliteRows):
    """Within a transaction its lock keeps everybody else from writing: what was seen stays true.

    A look at a table in which rows wait sees them: by key it finds them, else they are flushed when
    the look may come upon them. Small rows that most commands look at are known in the next
    transaction too, unless somebody else wrote to the file in between.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._buffers = {table: TableBuffer(table) for table in TABLES}
        self._waiting: list[TableBuffer] = []
        self._passing = [
            buffer.rows for table, buffer in self._buffers.items() if table not in REMEMBERED
        ]
        self._kept = [self._buffers[table].rows for table in REMEMBERED]
        self._tips: dict[int, NodeRow] = {}
        """The newest node of a session, if it is small: the next one will be its child."""
        self._sessions: dict[Key, int] = {}
        """Numbers of sessions by tenant and id; what is found under them is looked at once more."""
        self._number = 0
        self._inserted = 0
        self._version = -1

    def begin(self) -> None:
        """A transaction has begun: forget what somebody else may have changed."""
        if self.connection.data_version() != self._version:
            self.forget()

    def ended(self) -> None:
        """What was written, if anything, is in the file; large rows are not remembered."""
        self._version = self.connection.data_version()
        any(map(dict.clear, self._passing))  # In one go: this is done for every commit.
        if len(self._sessions) > REMEMBERED_MAX:
            self._sessions.clear()
        if len(self._tips) > REMEMBERED_MAX:
            self._tips.clear()
        for rows in self._kept:
            if len(rows) > REMEMBERED_MAX:
                rows.clear()

    def forget(self) -> None:
        """Know nothing: what was written, if anything, was undone."""
        for buffer in self._buffers.values():
            buffer.forget()
        self._waiting.clear()
        self._tips.clear()
        self._sessions.clear()
        self._heads.clear()
        self._number = 0
        self._version = -1

    async def load(self, table: Table[R], key: Key) -> R | None:
        buffer = self._buffers[table]
        if buffer.adds:
            self._flush(buffer)
        row = buffer.rows.get(key, UNKNOWN)
        if row is UNKNOWN:
            if table in OFTEN_EMPTY and self._is_empty(buffer):
                return None
            if table is NODES and (tip := self._tips.get(key[0])) is not None and tip.ord == key[1]:
                return tip  # type: ignore[return-value]
            row = buffer.rows[key] = await super().load(table, key)
        return row  # type: ignore[no-any-return]

    async def load_many(self, table: Table[R], keys: Sequence[Key]) -> list[R | None]:
        if len(keys) == 1:
            return [await self.load(table, keys[0])]
        buffer = self._buffers[table]
        if buffer.adds:
            self._flush(buffer)
        rows = buffer.rows
        missing = [key for key in keys if key not in rows]
        if missing:
            found = self._load_all(table, missing)
            rows.update((key, found.get(key)) for key in missing)
        return [rows[key] for key in keys]

    async def find(self, index: Index[R], key: Key) -> R | None:
        if index is index.table.primary:
            return await self.load(index.table, key)
        if index is SESSIONS_BY_ID and (number := self._sessions.get(key)) is not None:
            known = await self.load(index.table, (number,))
            if known is not None and index.key_of(known) == key:
                return known
        self._settle(index, key)
        row = await super().find(index, key)
        if row is not None:
            place = index.table.key_of(row)
            self._buffers[index.table].rows[place] = row
            if index is SESSIONS_BY_ID:
                self._sessions[key] = place[0]
                values = self._heads.pop(place, None)
                if values is not None and place not in self._buffers[HEADS].rows:
                    self._buffers[HEADS].rows[place] = HEADS.row(*values)
        return row

    async def range(self, wanted: Range[T]) -> list[T]:
        table = wanted.index.table
        buffer = self._buffers[table]
        if table in OFTEN_EMPTY and self._is_empty(buffer):
            return []
        self._settle(wanted.index, wanted.prefix)
        rows = self._find_range(wanted)
        if rows and wanted.columns is None:
            key_of = table.key_of
            buffer.rows.update((key_of(row), row) for row in rows)
        return rows

    async def last_serial(self, table: Table[Any]) -> int:
        self._flush(self._buffers[table])
        return await super().last_serial(table)

    def number(self) -> int:
        if not self._number:
            texts = [statements_of(table).greatest("number") for table in NUMBERED]
            self._number = max(self._execute(text).get or 0 for text in texts)
        self._number += 1
        return self._number

    def _settle(self, index: Index[Any], prefix: Key) -> None:
        """Flush a table before a look through an index that rows which wait may belong to."""
        buffer = self._buffers[index.table]
        if buffer.before and prefix:
            values = buffer.firsts.get(index)
            if values is None:
                values = buffer.firsts[index] = set()
                buffer.note_firsts(index, values, buffer.before)
            if UNKNOWN not in values and prefix[0] not in values:
                return
        self._flush(buffer)

    def _is_empty(self, buffer: TableBuffer) -> bool:
        """Whether nobody ever wrote a row, so that there is nothing to look for."""
        if buffer.before:
            return False
        if buffer.empty is None:
            buffer.empty = self._execute(buffer.texts.any_row).get is None
        return buffer.empty

    # --- writing

    def take(self, tx: Tx) -> None:
        """Let the writes of a command wait with those of its group."""
        for table, written in tx.writes.items():
            buffer, new, rows = self._buffers[table], tx.inserted.get(table), written
            if buffer.adds:
                self._flush(buffer)
            if not buffer.before:
                self._waiting.append(buffer)
            buffer.empty = None
            if table.serial and new:
                rows, new = self._numbered(written, new)
            if new and len(new) == len(rows) and buffer.rows.keys().isdisjoint(rows):
                buffer.before.update(dict.fromkeys(rows))
                buffer.rows.update(rows)
            else:
                buffer.wait(rows, new or ())
            if table is NODES:
                self._note_tip(rows, mixed=buffer.mixed)
            for index, values in buffer.firsts.items():
                buffer.note_firsts(index, values, rows)
        for table, summed in tx.adds.items():
            buffer = self._buffers[table]
            if buffer.before:
                self._flush(buffer)
            self._waiting.append(buffer)
            for key, row in summed.items():
                old = buffer.adds.get(key)
                buffer.adds[key] = row if old is None else added(table, old, row)

    def _numbered(self, written: dict[Key, Any], new: set[Key]) -> tuple[dict[Key, Any], set[Key]]:
        """Rows of a serial table; new ones have keys of their own until the file gives some."""
        rows, fresh = {}, set()
        for key, row in written.items():
            place = key
            if key in new:
                self._inserted += 1
                place = (-self._inserted,)
                fresh.add(place)
            rows[place] = row
        return rows, fresh

    def _note_tip(self, nodes: dict[Key, NodeRow | None], *, mixed: bool) -> None:
        """A command writes nodes: the newest of a session is remembered, if it is small."""
        if not mixed:
            key = next(reversed(nodes))
            row = nodes[key]
            if row is not None and len(row.body or b"") <= SMALL_BYTES:
                self._tips[key[0]] = row
                return
        for number, _ in nodes:
            self._tips.pop(number, None)

    def flush_all(self) -> None:
        """Write all that waits."""
        for buffer in self._waiting:
            if buffer.before or buffer.adds:
                self._flush(buffer)
        self._waiting.clear()

    def _flush(self, buffer: TableBuffer) -> None:
        """Write what waits for a table."""
        try:
            if buffer.before:
                self._write(buffer)
            if buffer.adds:
                texts = buffer.texts
                self._run(texts.add, list(map(texts.values, buffer.adds.values())))
                buffer.adds.clear()
                buffer.rows.clear()
        except apsw.ConstraintError as error:
            raise KeyTaken from error
        except REFUSED as error:
            raise NotTaken from error

    def _write(self, buffer: TableBuffer) -> None:
        texts, rows, before = buffer.texts, buffer.rows, buffer.before
        if not buffer.mixed:
            self._run(texts.insert, list(map(texts.inserted, map(rows.__getitem__, before))))
        elif len(before) > 1 or not self._change(texts, before, rows):
            self._sort(buffer)
        if buffer.table not in REMEMBERED:
            rows.clear()
        buffer.written()

    def _change(self, texts: Statements, before: dict[Key, Any], rows: dict[Key, Any]) -> bool:
        """One row that stays in its places: most of what a lone commit changes."""
        ((key, old),) = before.items()
        row = rows[key]
        if row is None or old is None or old is UNKNOWN or texts.moved(old, row):
            return False
        if texts.change:
            self._execute(texts.change, texts.changed(texts.values(row)))
        return True

    def _sort(self, buffer: TableBuffer) -> None:
        """Rows leave before others come, so that what is unique is free."""
        texts = buffer.texts
        drops, changes, inserts, puts = buffer.sorted_writes()
        if drops:
            self._drop(buffer.table, drops)
        for moved, some in changes.items():
            text, pick = texts.update(moved)
            if text:
                self._run(text, list(map(pick, some)))
        self._run(texts.insert, inserts)
        self._run(texts.put, puts)

    def _drop(self, table: Table[Any], keys: list[Key]) -> None:
        """The newest row of a serial table is blanked: its key must never be given out again."""
        texts = statements_of(table)
        if not table.serial:
            self._run(texts.delete, keys)
            return
        newest = (self._execute(texts.last).get,)
        self._run(texts.delete, [key for key in keys if key != newest])
        self._execute(texts.drop_blank())
        if newest in keys:
            text, nothing = texts.blank()
            self._execute(text, (*nothing, *newest))

    def _run(self, text: str, rows: list[Key]) -> None:
        if len(rows) == 1:
            self._execute(text, rows[0])
        elif rows:
            self.connection.executemany(text, rows)
