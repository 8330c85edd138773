"""The rows of a SQLite file for its writer, and those that wait to be written, table by table.

A command that is refused has written nothing, since its writes are rows in dictionaries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeVar

import apsw
import msgspec

from ledgerstone.engines.sqlite.rows import SqliteRows, statements_of
from ledgerstone.engines.sqlite.sorting import sort
from ledgerstone.tables.graph import NODES, NodeRow
from ledgerstone.tables.runs import KEPT_RUNS
from ledgerstone.tables.sessions import HEADS, PURGED, SESSIONS, SESSIONS_BY_ID, STUBS
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.transaction import UNKNOWN, Tx, added
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


class WritingRows(SqliteRows):
    """Within a transaction its lock keeps everybody else from writing: what was seen stays true.

    A look at a table in which rows wait sees them: by key it finds them, else they are flushed when
    the look may come upon them. Small rows that most commands look at are known in the next
    transaction too, unless somebody else wrote to the file in between.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection)
        self._waiting: dict[Table[Any], dict[Key, Any]] = {}
        self._firsts: dict[Table[Any], dict[Index[Any], set[Any]]] = {}
        """Of the indexes that were asked for while rows wait: in which places rows change."""
        self._adds: dict[Table[Any], dict[Key, Any]] = {}
        self._seen: defaultdict[Table[Any], dict[Key, Any]] = defaultdict(dict)
        """What is known of the file, by key; None where there is no row."""
        self._tips: dict[int, NodeRow] = {}
        """The newest node of a session, if it is small: the next one will be its child."""
        self._sessions: dict[Key, int] = {}
        """Numbers of sessions by tenant and id; what is found under them is looked at once more."""
        self._empty: dict[Table[Any], bool] = {}
        self._number = 0
        self._inserted = 0
        self._version = -1

    def begin(self) -> None:
        """A transaction has begun: forget what somebody else may have changed."""
        version = self._execute("PRAGMA data_version").get  # Commits of our own do not move it.
        if version != self._version:
            self.forget()
            self._version = version

    def ended(self) -> None:
        """What was written, if anything, is in the file; large rows are not remembered."""
        for table in [table for table in self._seen if table not in REMEMBERED]:
            del self._seen[table]
        for known in (self._sessions, self._tips, *self._seen.values()):
            if len(known) > REMEMBERED_MAX:
                known.clear()  # type: ignore[attr-defined]
        self._number = 0

    def forget(self) -> None:
        """Know nothing: what was written, if anything, was undone."""
        self._waiting.clear()
        self._firsts.clear()
        self._adds.clear()
        self._seen.clear()
        self._tips.clear()
        self._sessions.clear()
        self._empty.clear()
        self._number = 0
        self._version = -1

    async def load(self, table: Table[R], key: Key) -> R | None:
        waiting = self._waiting.get(table)
        if waiting is not None and (row := waiting.get(key, UNKNOWN)) is not UNKNOWN:
            return row  # type: ignore[no-any-return]
        if table in self._adds:
            self.flush(table)
        row = self._seen[table].get(key, UNKNOWN)
        if row is UNKNOWN:
            if table in OFTEN_EMPTY and self._is_empty(table):
                return None
            if table is NODES and (tip := self._tips.get(key[0])) is not None and tip.ord == key[1]:
                return tip  # type: ignore[return-value]
            row = self._seen[table][key] = await super().load(table, key)
        return row  # type: ignore[no-any-return]

    async def load_many(self, table: Table[R], keys: Sequence[Key]) -> list[R | None]:
        if len(keys) == 1:
            return [await self.load(table, keys[0])]
        self._flush_waiting(table)
        seen = self._seen[table]
        missing = [key for key in keys if key not in seen]
        found = self._load_all(table, missing)
        for key in missing:
            seen[key] = found.get(key)
        return [seen[key] for key in keys]

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
            self._seen[index.table][place] = row
            if index is SESSIONS_BY_ID:
                self._sessions[key] = place[0]
                values = self._heads.pop(place, None)
                if values is not None and place not in self._seen[HEADS]:
                    self._seen[HEADS][place] = HEADS.row(*values)
        return row

    async def range(
        self,
        index: Index[R],
        prefix: Key,
        after: Key | None,
        before: Key | None,
        limit: int | None,
        reverse: bool,
    ) -> list[R]:
        if index.table in OFTEN_EMPTY and self._is_empty(index.table):
            return []
        self._settle(index, prefix)
        rows = await super().range(index, prefix, after, before, limit, reverse)
        if rows:
            key_of = index.table.key_of
            self._seen[index.table].update((key_of(row), row) for row in rows)
        return rows

    async def range_columns(
        self,
        index: Index[Any],
        columns: tuple[str, ...],
        prefix: Key,
        after: Key | None,
        before: Key | None,
        limit: int | None,
        reverse: bool,
    ) -> list[tuple[Any, ...]]:
        if index.table in OFTEN_EMPTY and self._is_empty(index.table):
            return []
        self._settle(index, prefix)
        return self._range(index, columns, prefix, after, before, limit, reverse)

    async def last_serial(self, table: Table[Any]) -> int:
        self._flush_waiting(table)
        return await super().last_serial(table)

    def number(self) -> int:
        if not self._number:
            texts = [statements_of(table).greatest("number") for table in NUMBERED]
            self._number = max(self._execute(text).get or 0 for text in texts)
        self._number += 1
        return self._number

    def _settle(self, index: Index[Any], prefix: Key) -> None:
        """Flush a table before a look through an index that rows which wait may belong to."""
        table = index.table
        if (waiting := self._waiting.get(table)) is not None and prefix:
            firsts = self._firsts.setdefault(table, {})
            if index not in firsts:
                firsts[index] = values = set[Any]()
                self._note_firsts(index, values, waiting)
            if UNKNOWN not in firsts[index] and prefix[0] not in firsts[index]:
                return
        self._flush_waiting(table)

    def _note_firsts(self, index: Index[Any], values: set[Any], rows: dict[Key, Any]) -> None:
        """Add the first columns of rows, as they wait and as the file has them."""
        seen, name = self._seen[index.table], index.columns[0]
        for key, row in rows.items():
            old = seen.get(key, UNKNOWN)
            if old is UNKNOWN and not (index.table.serial and key[0] < 0):
                values.add(UNKNOWN)
            for one in (old, row):
                if one is not UNKNOWN and one is not None:
                    values.add(getattr(one, name))

    def _is_empty(self, table: Table[Any]) -> bool:
        """Whether nobody ever wrote a row, so that there is nothing to look for."""
        if table in self._waiting:
            return False
        empty = self._empty.get(table)
        if empty is None:
            empty = self._empty[table] = self._execute(statements_of(table).any_row).get is None
        return empty

    # --- writing

    def take(self, tx: Tx) -> None:
        """Let the writes of a command wait with those of its group."""
        for table, written in tx.writes.items():
            if table in self._adds:
                self.flush(table)
            self._empty.pop(table, None)
            if table.serial:
                self._take_serial(table, written)
                continue
            if (new := tx.inserted.get(table)) is not None:
                self._check_new(table, new)
            for index, values in self._firsts.get(table, {}).items():
                self._note_firsts(index, values, written)
            if (waiting := self._waiting.get(table)) is None:
                self._waiting[table] = written
            else:
                waiting.update(written)
        for table, summed in tx.adds.items():
            if table in self._waiting:
                self.flush(table)
            adds = self._adds.setdefault(table, {})
            for key, row in summed.items():
                adds[key] = added(table, adds[key], row) if key in adds else row

    def _check_new(self, table: Table[Any], keys: set[Key]) -> None:
        """No row has these keys, unless it waits to be deleted: the file itself will say so."""
        seen, waiting = self._seen[table], self._waiting.get(table)
        if waiting and not waiting.keys().isdisjoint(keys):
            if any(waiting.get(key) is not None for key in keys):
                raise KeyTaken
            keys = keys - waiting.keys()
        if seen and any(seen.get(key) is not None for key in keys):
            raise KeyTaken
        seen.update(dict.fromkeys(keys))

    def _take_serial(self, table: Table[Any], written: dict[Key, Any]) -> None:
        for index, values in self._firsts.get(table, {}).items():
            self._note_firsts(index, values, written)
        waiting = self._waiting.setdefault(table, {})
        for key, row in written.items():
            if row is not None and key[0] < 0:
                self._inserted += 1
                waiting[(-self._inserted,)] = row  # Until the file gives the key.
            else:
                waiting[key] = row

    def flush_all(self) -> None:
        """Write all that waits."""
        for table in list(self._waiting):
            self.flush(table)
        for table in list(self._adds):
            self.flush(table)

    def _flush_waiting(self, table: Table[Any]) -> None:
        if table in self._waiting or table in self._adds:
            self.flush(table)

    def flush(self, table: Table[Any]) -> None:
        """Write what waits for a table."""
        try:
            waiting = self._waiting.pop(table, None)
            self._firsts.pop(table, None)
            if waiting:
                self._write(table, waiting)
            adds = self._adds.pop(table, None)
            if adds:
                texts = statements_of(table)
                self._run(texts.add, [texts.values(row) for row in adds.values()])
                self._seen[table].clear()
        except apsw.ConstraintError as error:
            raise KeyTaken from error
        except REFUSED as error:
            raise NotTaken from error

    def _write(self, table: Table[Any], waiting: dict[Key, Any]) -> None:
        """Rows leave before others come, so that what is unique is free."""
        texts, seen = statements_of(table), self._seen[table]
        if len(waiting) == 1 and texts.change and not texts.movable:
            ((key, row),) = waiting.items()
            if row is not None and seen.get(key) is not None:
                # Most of what a lone commit writes.
                seen[key] = row
                self._execute(texts.change, texts.changed(texts.values(row)))
                return
        work = sort(texts, seen, waiting)
        if table is NODES:
            self._note_tips(waiting)
        if table in REMEMBERED:
            seen.update(waiting)
        else:
            seen.clear()
        if work.drops:
            self._drop(table, work.drops)
        for moved, rows in work.changes.items():
            text, pick = texts.update(moved)
            if text:
                self._run(text, [pick(values) for values in rows])
        if work.inserts:
            self._run(texts.insert, work.inserts)
        if work.puts:
            self._run(texts.put, work.puts)

    def _note_tips(self, nodes: dict[Key, NodeRow | None]) -> None:
        """Rows of nodes are written: the newest of each session is remembered, if it is small."""
        tips = self._tips
        for (number, ord), row in nodes.items():
            tip = tips.get(number)
            if tip is not None and tip.ord > ord:
                continue
            if row is not None and len(row.body or b"") <= SMALL_BYTES:
                tips[number] = row
            elif tip is not None:
                del tips[number]

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
