"""The rows of all tables, and every index over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from ledgerstone.engines.memory.sorted_keys import TOP, SortedKeys
from ledgerstone.tables.schema import TABLES
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.transaction import Range, T, Tx, added

R = TypeVar("R", bound=msgspec.Struct)


class Change(NamedTuple):
    """A row that a transaction put, or removed when `row` is None."""

    table: Table[Any]
    key: Key
    row: Any


class Given(NamedTuple):
    """The last number of a session, and the last key of each serial table."""

    number: int
    serials: dict[Table[Any], int]


class MemoryRows:
    """Tables in dictionaries. What a handler wrote is worked out first, then placed."""

    def __init__(self) -> None:
        self.tables: dict[Table[Any], dict[Key, Any]] = {table: {} for table in TABLES}
        indexes = [index for table in TABLES for index in table.indexes.values()]
        self._sorted = {index: SortedKeys() for index in indexes}
        self._unique: dict[Index[Any], dict[Key, Key]] = {
            index: {} for index in indexes if index.unique and index is not index.table.primary
        }
        self._last_number = 0
        self._last_serials: dict[Table[Any], int] = {}

    async def load(self, table: Table[R], key: Key) -> R | None:
        return self.tables[table].get(key)

    async def load_many(self, table: Table[R], keys: Sequence[Key]) -> list[R | None]:
        rows = self.tables[table]
        return [rows.get(key) for key in keys]

    async def find(self, index: Index[R], key: Key) -> R | None:
        if index is index.table.primary:
            return self.tables[index.table].get(key)
        found = self._unique[index].get(key)
        return None if found is None else self.tables[index.table][found]

    async def range(self, wanted: Range[T]) -> list[T]:
        rows: Iterator[Any] = self._find_range(wanted)
        if wanted.columns is not None:
            pick = attrgetter(*wanted.columns)
            rows = map(pick, rows) if len(wanted.columns) > 1 else ((pick(row),) for row in rows)
        return list(rows)

    async def last_serial(self, table: Table[Any]) -> int:
        return self._last_serials.get(table, 0)

    def number(self) -> int:
        self._last_number += 1
        return self._last_number

    def key_in(self, index: Index[Any], key: Key) -> Key | None:
        """The primary key of the row with this key of another unique index."""
        return self._unique[index].get(key)

    def between(self, index: Index[R], prefix: Key = ()) -> list[R]:
        """The rows whose columns in the index begin with the prefix."""
        return list(self._find_range(Range(index, prefix)))

    @property
    def given(self) -> Given:
        """The numbers and serial keys that were given out last."""
        return Given(self._last_number, dict(self._last_serials))

    @given.setter
    def given(self, last: Given) -> None:
        self._last_number, self._last_serials = last.number, dict(last.serials)

    def _find_range(self, wanted: Range[Any]) -> Iterator[Any]:
        index, prefix, after, before = wanted.index, wanted.prefix, wanted.after, wanted.before
        low = prefix if after is None else (*prefix, *after, TOP)
        high = (*prefix, TOP) if before is None else (*prefix, *before)
        rows, width = self.tables[index.table], len(index.columns)
        keys = islice(self._sorted[index].between(low, high, reverse=wanted.reverse), wanted.limit)
        if index is index.table.primary:
            return (rows[key] for key in keys)
        return (rows[key[width:]] for key in keys)

    def changes(self, tx: Tx) -> list[Change]:
        """What a handler wrote, as rows: keys given, sums added."""
        found: list[Change] = []
        for table, written in tx.writes.items():
            for key, row in written.items():
                if table.serial and row is not None and key[0] < 0:
                    self._last_serials[table] = serial = self._last_serials.get(table, 0) + 1
                    given = msgspec.structs.replace(row, **{table.key[0]: serial})
                    found.append(Change(table, (serial,), given))
                else:
                    found.append(Change(table, key, row))
        for table, summed in tx.adds.items():
            for key, row in summed.items():
                old = tx.writes.get(table, {}).get(key) or self.tables[table].get(key)
                found.append(Change(table, key, row if old is None else added(table, old, row)))
        return found

    def place(self, changes: list[Change]) -> None:
        """Make the rows what the changes say; what leaves an index goes first."""
        for change in changes:
            self._leave(change)
        for change in changes:
            self._enter(change)

    def _leave(self, change: Change) -> None:
        table, key, row = change
        old = self.tables[table].get(key)
        if old is None:
            return
        for index in table.indexes.values():
            place = _place(index, old)
            if place is None or (row is not None and _place(index, row) == place):
                continue
            self._sorted[index].remove(key if index is table.primary else (*place, *key))
            if index in self._unique:
                del self._unique[index][place]
        if row is None:
            del self.tables[table][key]

    def _enter(self, change: Change) -> None:
        table, key, row = change
        if row is None:
            return
        old = self.tables[table].get(key)
        for index in table.indexes.values():
            place = _place(index, row)
            if place is None or (old is not None and _place(index, old) == place):
                continue
            if index in self._unique:
                if place in self._unique[index]:
                    raise RuntimeError(f"{table.name}.{index.name}: {place} is taken")
                self._unique[index][place] = key
            self._sorted[index].add(key if index is table.primary else (*place, *key))
        self.tables[table][key] = row


def _place(index: Index[Any], row: Any) -> Key | None:
    """Where a row stands in an index; None when the index does not hold it."""
    if index.holds is not None and not index.holds(row):
        return None
    return index.key_of(row)
