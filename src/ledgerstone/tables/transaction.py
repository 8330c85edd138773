"""The transaction a handler sees: a few verbs over the rows of an engine, its own writes on top.

    get  get_many  find  fresh  scan  scan_columns      look, and may wait for the engine
    put  insert  add  delete                            are carried out when the handler is done

A handler that raises has written nothing. One that answers has its writes carried out all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from ledgerstone.tables.table import Index, Key, Table

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

FOREVER_US = 1 << 62
UNKNOWN: Any = object()


class Range(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """Rows whose columns in an index begin with a prefix, in its order.

    Where the index leaves a choice, the primary key decides. `after` and `before` bound the columns
    that follow the prefix, and are left out themselves: `after=(5,)` begins behind all rows that
    have 5 there. What comes are rows, or tuples of some of their columns.
    """

    index: Index[Any]
    prefix: Key = ()
    after: Key | None = None
    before: Key | None = None
    limit: int | None = None
    reverse: bool = False
    columns: tuple[str, ...] | None = None


class Rows(Protocol):
    """What an engine is asked while a handler runs: the rows as they were before it."""

    async def load(self, table: Table[R], key: Key) -> R | None:
        """The row with this key."""
        ...

    async def load_many(self, table: Table[R], keys: Sequence[Key]) -> list[R | None]:
        """The rows with these keys, in their order."""
        ...

    async def find(self, index: Index[R], key: Key) -> R | None:
        """The row with this key of a unique index."""
        ...

    async def range(self, wanted: Range[T]) -> list[T]:
        """The rows of a range, in its order."""
        ...

    async def last_serial(self, table: Table[Any]) -> int:
        """The greatest key that a row of a serial table ever had; 0 before the first."""
        ...

    def number(self) -> int:
        """The number of a new session; never given out twice."""
        ...


class Tx:
    """One command or query on its way.

    `now_us` is the one moment it happens at. `assumed` says that a look was saved by `fresh`;
    `until_us` until when every answer of `live` stays what it was. `inserted` are the keys of rows
    that must be new.
    """

    __slots__ = (
        "_found", "_strict", "adds", "assumed", "from_us", "inserted", "now_us", "rows",
        "until_us", "writes",
    )  # fmt: skip

    def __init__(self, rows: Rows, now_us: int, *, strict: bool = True) -> None:
        self.rows = rows
        self._strict = strict
        self.now_us = now_us
        self.assumed = False
        self.from_us = 0
        self.until_us = FOREVER_US
        self.writes: dict[Table[Any], dict[Key, Any]] = {}
        self.inserted: dict[Table[Any], set[Key]] = {}
        self.adds: dict[Table[Any], dict[Key, Any]] = {}
        # Own writes by the unique indexes that were asked for.
        self._found: dict[Table[Any], dict[Index[Any], dict[Key, Any]]] = {}

    async def get(self, table: Table[R], *key: Any) -> R | None:
        """The row with this key."""
        mine = self.writes.get(table)
        if mine is not None and (row := mine.get(key, UNKNOWN)) is not UNKNOWN:
            return row  # type: ignore[no-any-return]
        return await self.rows.load(table, key)

    async def get_many(self, table: Table[R], keys: Iterable[Key]) -> list[R | None]:
        """The rows with these keys, in their order."""
        wanted = list(keys)
        mine = self.writes.get(table)
        if not mine:
            return await self.rows.load_many(table, wanted) if wanted else []
        others = [key for key in wanted if key not in mine]
        rows = await self.rows.load_many(table, others) if others else []
        stored = dict(zip(others, rows, strict=True))
        return [mine[key] if key in mine else stored[key] for key in wanted]

    async def find(self, index: Index[R], *key: Any) -> R | None:
        """The row with this key of a unique index."""
        mine = self.writes.get(index.table)
        if mine and (own := self._own(index).get(key)) is not None:
            return own
        row = await self.rows.find(index, key)
        if row is not None and mine and index.table.key_of(row) in mine:
            return None  # Changed here, and it has this key no more.
        return row

    def _own(self, index: Index[R]) -> dict[Key, R]:
        """The rows written here, by a unique index."""
        indexes = self._found.setdefault(index.table, {})
        own = indexes.get(index)
        if own is None:
            rows = [row for row in self.writes[index.table].values() if row is not None]
            own = {index.key_of(row): row for row in rows if _holds(index, row)}
            indexes[index] = own
        return own

    async def fresh(self, index: Index[R], keys: Iterable[Key]) -> R | None:
        """The first of the rows with these unique keys that is there already.

        None is a promise to `insert` rows with all of them: an engine may skip the look, since its
        unique index finds out.
        """
        if not self._strict:
            self.assumed = True
            return None
        for key in keys:
            row = await self.find(index, *key)
            if row is not None:
                return row
        return None

    async def scan(
        self,
        index: Index[R],
        *prefix: Any,
        after: Key | None = None,
        before: Key | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[R]:
        """The rows of a range (`Range`)."""
        mine = self.writes.get(index.table)
        if not mine:
            return await self.rows.range(Range(index, prefix, after, before, limit, reverse))
        more = None if limit is None else limit + len(mine)
        wanted = Range[R](index, prefix, after, before, more, reverse)
        key_of, place_of = index.table.key_of, index.key_of
        rows = [row for row in await self.rows.range(wanted) if key_of(row) not in mine]
        rows += [row for row in mine.values() if _within(wanted, row)]
        rows.sort(key=lambda row: (place_of(row), key_of(row)), reverse=reverse)
        return rows[:limit]

    async def scan_columns(
        self,
        index: Index[Any],
        columns: tuple[str, ...],
        *prefix: Any,
        after: Key | None = None,
        before: Key | None = None,
        limit: int | None = None,
        reverse: bool = False,
    ) -> list[tuple[Any, ...]]:
        """The same, but only these columns, as plain tuples: for long lists and large rows."""
        if not self.writes.get(index.table):
            return await self.rows.range(
                Range(index, prefix, after, before, limit, reverse, columns)
            )
        found = await self.scan(
            index, *prefix, after=after, before=before, limit=limit, reverse=reverse
        )
        pick = attrgetter(*columns)
        return [pick(row) for row in found] if len(columns) > 1 else [(pick(row),) for row in found]

    async def last_serial(self, table: Table[Any]) -> int:
        """The greatest key that a row of a serial table had before this transaction."""
        return await self.rows.last_serial(table)

    def live(self, until_us: int) -> bool:
        """Whether a stored moment is still to come; what is decided stands as long as this does."""
        if until_us > self.now_us:
            self.until_us = min(self.until_us, until_us)
            return True
        self.from_us = max(self.from_us, until_us)
        return False

    def put(self, table: Table[R], row: R) -> None:
        """Insert or replace the row with this key."""
        key, mine = table.key_of(row), self.writes.get(table)
        if mine is None:
            self.writes[table] = {key: row}
        elif table in self._found:
            self._write(table, key, row)
        else:
            mine[key] = row

    def insert(self, table: Table[R], rows: Sequence[R]) -> None:
        """Add rows whose keys are known to be new."""
        mine = self.writes.get(table)
        if table.serial:
            first = -1 if mine is None else -1 - len(mine)
            keyed: dict[Key, Any] = {(first - n,): row for n, row in enumerate(rows)}
        else:
            key_of = table.key_of
            keyed = {key_of(row): row for row in rows}
        # Others were deleted here.
        new = set(keyed) if mine is None else keyed.keys() - mine.keys()
        if (known := self.inserted.get(table)) is None:
            self.inserted[table] = new
        else:
            known |= new
        if mine is None:
            self.writes[table] = keyed
        elif table in self._found:
            for key, row in keyed.items():
                self._write(table, key, row)
        else:
            mine.update(keyed)

    def add(self, table: Table[R], row: R) -> None:
        """Add to the sums of the row with this key, or insert it; nobody has to look first."""
        mine, key = self.adds.setdefault(table, {}), table.key_of(row)
        mine[key] = added(table, mine[key], row) if key in mine else row

    def delete(self, table: Table[Any], *key: Any) -> None:
        """Remove the row with this key, if there is one."""
        self._write(table, key, None)
        if table in self.inserted:
            self.inserted[table].discard(key)

    def _write(self, table: Table[R], key: Key, row: R | None) -> None:
        mine = self.writes.setdefault(table, {})
        for index, own in self._found.get(table, {}).items():
            old = mine.get(key)
            if old is not None and _holds(index, old):
                own.pop(index.key_of(old), None)
            if row is not None and _holds(index, row):
                own[index.key_of(row)] = row
        mine[key] = row

    def number(self) -> int:
        """The number of a new session."""
        return self.rows.number()

    @property
    def changed(self) -> bool:
        return bool(self.writes or self.adds)


def added(table: Table[R], old: R, more: R) -> R:
    """A row with its sums added to those of another."""
    values, others = list(msgspec.structs.astuple(old)), msgspec.structs.astuple(more)
    for place in table.sum_places:
        values[place] += others[place]
    return type(old)(*values)


def _holds(index: Index[Any], row: Any) -> bool:
    return index.holds is None or index.holds(row)


def _within(wanted: Range[Any], row: Any) -> bool:
    if row is None or not _holds(wanted.index, row):
        return False
    place, size = wanted.index.key_of(row), len(wanted.prefix)
    if place[:size] != wanted.prefix:
        return False
    rest, after, before = place[size:], wanted.after, wanted.before
    if after is not None and rest[: len(after)] <= after:
        return False
    return before is None or rest[: len(before)] < before
