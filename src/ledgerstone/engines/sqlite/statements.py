"""SQL texts of a table of a SQLite file, and the values that they bind."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from operator import attrgetter, itemgetter, ne
from typing import Any

from msgspec.structs import astuple

from ledgerstone.engines.sqlite.seals import sealer
from ledgerstone.engines.statements import Lookups, quoted, stored_columns
from ledgerstone.tables.table import ORD_BITS, Index, Key, Table

MANY_MAX = 64
"""Maximum keys that one statement looks up."""
_NOTHING = {"integer": 0, "text": "", "blob": b""}


class Statements(Lookups):
    """The texts of one table."""

    def __init__(self, table: Table[Any]) -> None:
        super().__init__(table)
        self.stored = stored_columns(table)
        self.values = _values_of(table)
        """A row as its columns hold it, sealed."""
        self.inserted = self.values if not table.serial else lambda row: astuple(row)[1:]
        """What `insert` and `put` bind."""
        self._names = [name for name in self.stored if not (table.serial and name in self.key)]
        self._rest = [name for name in self.stored if name not in self.key]
        places = ",".join("?" * len(self._names))
        names = ",".join(map(quoted, self._names))
        self.insert = f"insert into {table.name} ({names}) values ({places})"
        self.put = self._on_conflict([f"{quoted(n)} = excluded.{quoted(n)}" for n in self._rest])
        sums = [f"{quoted(n)} = {quoted(n)} + excluded.{quoted(n)}" for n in table.sums]
        self.add = self._on_conflict(sums) if sums else ""
        self.delete = f"delete from {table.name} where {self._where}"
        self.last = self.greatest(self.key[0])
        self.any_row = f"select 1 from {table.name} limit 1"
        self._many: dict[int, str] = {}
        self._updates: dict[Key, tuple[str, Callable[[Key], Key]]] = {}
        indexes = [one for one in table.indexes.values() if one is not table.primary]
        self._moving = _moving(table, indexes)
        self.movable: Key = self._moving[0]
        self.change, self.changed = self.update(())
        self._guarding = _moving(table, [one for one in indexes if one.unique])

    def _on_conflict(self, changes: list[str]) -> str:
        key = ", ".join(map(quoted, self.key))
        what = f"update set {', '.join(changes)}" if changes else "nothing"
        return f"{self.insert} on conflict ({key}) do {what}"

    def greatest(self, name: str) -> str:
        """The greatest value of a column."""
        return f"select max({quoted(name)}) from {self.table.name}"

    # --- looking

    def source(self, index: Index[Any] | None) -> str:
        """The table, with the index that has to be used: the planner knows nothing of the rows."""
        table = self.table
        if index is None or (index is table.primary and not table.rowid):
            return table.name
        return f"{table.name} indexed by {table.name}_{index.name}"

    def many(self, count: int) -> str:
        """The rows with so many keys."""
        text = self._many.get(count)
        if text is None:
            key, one = ", ".join(map(quoted, self.key)), ", ".join("?" * len(self.key))
            if len(self.key) == 1:
                wanted = f"{key} in ({', '.join('?' * count)})"
            else:
                wanted = f"({key}) in (values {', '.join([f'({one})'] * count)})"
            text = f"select {self._columns} from {self.table.name} where {wanted}"
            self._many[count] = text
        return text

    # --- writing

    def moved(self, old: Any, row: Any) -> Key:
        """The columns of other indexes that are not what they were."""
        names, values = self._moving
        before, now = values(old), values(row)
        return () if before == now else tuple(compress(names, map(ne, before, now)))

    def keeps_places(self, old: Any, row: Any) -> bool:
        """Whether a row stays where it was in all unique indexes."""
        values = self._guarding[1]
        return bool(values(old) == values(row))

    def update(self, moved: Key) -> tuple[str, Callable[[Key], Key]]:
        """An update of what no index has, and of these columns; what it binds of the values.

        Without any such columns there is nothing to do, and the text is empty.
        SQLite writes every index anew that has a column which an update names.
        """
        found = self._updates.get(moved)
        if found is None:
            still = self._moving[0]
            names = [name for name in self._rest if name not in still or name in moved]
            place = {name: n for n, name in enumerate(self.stored, 1)}
            changes = ",".join(f"{quoted(name)}=?{place[name]}" for name in names)
            where = " and ".join(f"{quoted(name)}=?{place[name]}" for name in self.key)
            text = f"update {self.table.name} set {changes} where {where}" if names else ""
            last = max(place[name] for name in (*names, *self.key))
            found = self._updates[moved] = text, itemgetter(slice(last))
        return found

    def blank(self) -> tuple[str, Key]:
        """Lets a row of a serial table say nothing; binds the columns, then the key."""
        table = self.table
        values = tuple(
            None if name in table.optional else _NOTHING[table.types[name]] for name in self._rest
        )
        changes = ", ".join(f"{quoted(name)} = ?" for name in self._rest)
        return f"update {table.name} set {changes} where {self._where}", values

    def drop_blank(self) -> str:
        """Removes a blank row that is not the newest any more."""
        table, key = self.table, quoted(self.key[0])
        assert table.owner is not None
        newest = f"(select max({key}) from {table.name})"
        return f"delete from {table.name} where {quoted(table.owner)} = 0 and {key} < {newest}"


def _values_of(table: Table[Any]) -> Callable[[Any], Key]:
    """A row as the columns of its table hold it: packed and sealed."""
    seal_of = sealer(table) if table.sealed else None

    def packed_values(row: Any) -> Key:
        values = astuple(row)
        return ((values[0] << ORD_BITS) | values[1], *values[2:])

    def packed_sealed_values(row: Any) -> Key:
        assert seal_of is not None
        values = astuple(row)
        return ((values[0] << ORD_BITS) | values[1], *values[2:], seal_of(values))

    def sealed_values(row: Any) -> Key:
        assert seal_of is not None
        values = astuple(row)
        return (*values, seal_of(values))

    if table.packed:
        return packed_values if seal_of is None else packed_sealed_values
    return astuple if seal_of is None else sealed_values


def _moving(
    table: Table[Any], indexes: list[Index[Any]]
) -> tuple[tuple[str, ...], Callable[[Any], Any]]:
    """The columns of indexes outside the key, and their values in a row.

    The columns that a condition of a partial index names count as well.
    """
    names = [
        name
        for name in table.columns
        if name not in table.key
        and any(name in one.columns or _names(one, name) for one in indexes)
    ]
    if not names:
        return (), lambda row: ()
    get = attrgetter(*names)
    return tuple(names), get if len(names) > 1 else lambda row: (get(row),)


def _names(index: Index[Any], column: str) -> bool:
    """Whether the condition of a partial index may depend on a column."""
    return index.where is not None and column in index.where
