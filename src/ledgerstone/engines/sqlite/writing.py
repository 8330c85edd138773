"""The rows of a SQLite file for its writer, and those that wait to be written, table by table.

A command that is refused has written nothing, since its writes are rows in dictionaries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

import apsw
import msgspec

from ledgerstone.engines.sqlite.rows import SqliteRows, statements_of
from ledgerstone.engines.sqlite.sorting import sort
from ledgerstone.engines.sqlite.statements import Statements
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


class NotTaken(Exception):
    """Waiting rows could not be written; its cause says why. Nobody knows whose they are."""


class KeyTaken(NotTaken):
    """There is a row already with a key, or a unique value, that was said to be new."""


class Held:
    """What a transaction knows of one table, and what it has not yet written of it.

    A table is `mixed` when not all that waits is inserted.
    """

    __slots__ = ("adds", "before", "empty", "firsts", "mixed", "rows", "table", "texts")

    def __init__(self, table: Table[Any]) -> None:
        self.table = table
        self.texts = statements_of(table)
        self.rows: dict[Key, Any] = {}
        """Rows as they are now, by key; None where there is none."""
        self.before: dict[Key, Any] = {}
        """Of the rows that wait to be written: what the file has, or UNKNOWN."""
        self.mixed = False
        self.adds: dict[Key, Any] = {}
        self.firsts: dict[Index[Any], set[Any]] = {}
        """Of the indexes that were asked for while rows wait: in which places rows change."""
        self.empty: bool | None = None

    def forget(self) -> None:
        self.rows.clear()
        self.written()
        self.adds.clear()
        self.empty = None

    def written(self) -> None:
        """No row waits any more."""
        self.before.clear()
        self.firsts.clear()
        self.mixed = False

    def wait(self, written: dict[Key, Any], new: Collection[Key]) -> None:
        """Rows wait, some of them new: the file has none there, unless it waits to be deleted."""
        self.mixed = True
        rows = self.rows
        for key, row in written.items():
            old = rows.get(key, UNKNOWN)
            if key in new:
                if old is not UNKNOWN and old is not None:
                    raise KeyTaken
                old = None
            self.before.setdefault(key, old)
            rows[key] = row

    def note_firsts(self, index: Index[Any], values: set[Any], keys: Iterable[Key]) -> None:
        """Add the first columns of rows that wait, as they are and as the file has them."""
        name = index.columns[0]
        for key in keys:
            old = self.before[key]
            if old is UNKNOWN:
                values.add(UNKNOWN)
            for row in (old, self.rows[key]):
                if row is not UNKNOWN and row is not None:
                    values.add(getattr(row, name))


class WritingRows(SqliteRows):
    """Within a transaction its lock keeps everybody else from writing: what was seen stays true.

    A look at a table in which rows wait sees them: by key it finds them, else they are flushed when
    the look may come upon them. Small rows that most commands look at are known in the next
    transaction too, unless somebody else wrote to the file in between.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._held = {table: Held(table) for table in TABLES}
        self._waiting: list[Held] = []
        self._passing = [held.rows for table, held in self._held.items() if table not in REMEMBERED]
        self._kept = [self._held[table].rows for table in REMEMBERED]
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
        for held in self._held.values():
            held.forget()
        self._waiting.clear()
        self._tips.clear()
        self._sessions.clear()
        self._heads.clear()
        self._number = 0
        self._version = -1

    async def load(self, table: Table[R], key: Key) -> R | None:
        held = self._held[table]
        if held.adds:
            self._flush(held)
        row = held.rows.get(key, UNKNOWN)
        if row is UNKNOWN:
            if table in OFTEN_EMPTY and self._is_empty(held):
                return None
            if table is NODES and (tip := self._tips.get(key[0])) is not None and tip.ord == key[1]:
                return tip  # type: ignore[return-value]
            row = held.rows[key] = await super().load(table, key)
        return row  # type: ignore[no-any-return]

    async def load_many(self, table: Table[R], keys: Sequence[Key]) -> list[R | None]:
        if len(keys) == 1:
            return [await self.load(table, keys[0])]
        held = self._held[table]
        if held.adds:
            self._flush(held)
        rows = held.rows
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
            self._held[index.table].rows[place] = row
            if index is SESSIONS_BY_ID:
                self._sessions[key] = place[0]
                values = self._heads.pop(place, None)
                if values is not None and place not in self._held[HEADS].rows:
                    self._held[HEADS].rows[place] = HEADS.row(*values)
        return row

    async def range(self, wanted: Range[T]) -> list[T]:
        table = wanted.index.table
        held = self._held[table]
        if table in OFTEN_EMPTY and self._is_empty(held):
            return []
        self._settle(wanted.index, wanted.prefix)
        rows = self._find_range(wanted)
        if rows and wanted.columns is None:
            key_of = table.key_of
            held.rows.update((key_of(row), row) for row in rows)
        return rows

    async def last_serial(self, table: Table[Any]) -> int:
        self._flush(self._held[table])
        return await super().last_serial(table)

    def number(self) -> int:
        if not self._number:
            texts = [statements_of(table).greatest("number") for table in NUMBERED]
            self._number = max(self._execute(text).get or 0 for text in texts)
        self._number += 1
        return self._number

    def _settle(self, index: Index[Any], prefix: Key) -> None:
        """Flush a table before a look through an index that rows which wait may belong to."""
        held = self._held[index.table]
        if held.before and prefix:
            values = held.firsts.get(index)
            if values is None:
                values = held.firsts[index] = set()
                held.note_firsts(index, values, held.before)
            if UNKNOWN not in values and prefix[0] not in values:
                return
        self._flush(held)

    def _is_empty(self, held: Held) -> bool:
        """Whether nobody ever wrote a row, so that there is nothing to look for."""
        if held.before:
            return False
        if held.empty is None:
            held.empty = self._execute(held.texts.any_row).get is None
        return held.empty

    # --- writing

    def take(self, tx: Tx) -> None:
        """Let the writes of a command wait with those of its group."""
        for table, written in tx.writes.items():
            held, new, rows = self._held[table], tx.inserted.get(table), written
            if held.adds:
                self._flush(held)
            if not held.before:
                self._waiting.append(held)
            held.empty = None
            if table.serial and new:
                rows, new = self._numbered(written, new)
            if new and len(new) == len(rows) and held.rows.keys().isdisjoint(rows):
                held.before.update(dict.fromkeys(rows))
                held.rows.update(rows)
            else:
                held.wait(rows, new or ())
            if table is NODES:
                self._note_tip(rows, mixed=held.mixed)
            for index, values in held.firsts.items():
                held.note_firsts(index, values, rows)
        for table, summed in tx.adds.items():
            held = self._held[table]
            if held.before:
                self._flush(held)
            self._waiting.append(held)
            for key, row in summed.items():
                held.adds[key] = added(table, held.adds[key], row) if key in held.adds else row

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
        for held in self._waiting:
            if held.before or held.adds:
                self._flush(held)
        self._waiting.clear()

    def _flush(self, held: Held) -> None:
        """Write what waits for a table."""
        try:
            if held.before:
                self._write(held)
            if held.adds:
                texts = held.texts
                self._run(texts.add, list(map(texts.values, held.adds.values())))
                held.adds.clear()
                held.rows.clear()
        except apsw.ConstraintError as error:
            raise KeyTaken from error
        except REFUSED as error:
            raise NotTaken from error

    def _write(self, held: Held) -> None:
        texts, rows, before = held.texts, held.rows, held.before
        if not held.mixed:
            self._run(texts.insert, list(map(texts.inserted, map(rows.__getitem__, before))))
        elif len(before) > 1 or not self._change(texts, before, rows):
            self._sort(held)
        if held.table not in REMEMBERED:
            rows.clear()
        held.written()

    def _change(self, texts: Statements, before: dict[Key, Any], rows: dict[Key, Any]) -> bool:
        """One row that stays in its places: most of what a lone commit changes."""
        ((key, old),) = before.items()
        row = rows[key]
        if row is None or old is None or old is UNKNOWN or texts.moved(old, row):
            return False
        if texts.change:
            self._execute(texts.change, texts.changed(texts.values(row)))
        return True

    def _sort(self, held: Held) -> None:
        """Rows leave before others come, so that what is unique is free."""
        texts = held.texts
        drops, changes, inserts, puts = sort(texts, held.before, held.rows)
        if drops:
            self._drop(held.table, drops)
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
