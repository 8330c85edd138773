"""SQL texts of a table, made from its declaration, and the values that they bind.

The two halves of a packed key are one column, `key` = number << 32 | ord. Texts are made once per
shape of a question and then found again.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from operator import attrgetter, itemgetter, ne
from typing import Any, NamedTuple

from msgspec.structs import astuple

from ledgerstone.engines.sqlite.seals import sealer
from ledgerstone.tables.table import ORD_BITS, Index, Key, Table

ORD_MASK = (1 << ORD_BITS) - 1
MANY_MAX = 64
"""Maximum keys that one statement looks up."""
KEYWORDS = frozenset(("key", "user"))
"""Columns whose names SQL takes for its own."""
_NOTHING = {"integer": 0, "text": "", "blob": b""}


class Shape(NamedTuple):
    """What distinguishes the texts of ranges over one index."""

    prefix: int
    after: int | None
    before: int | None
    limit: bool
    reverse: bool
    columns: tuple[str, ...] | None


class Range(NamedTuple):
    """A text, and the values it binds from prefix, after and before."""

    text: str
    bind: Callable[[Key, Key, Key], Key]


class Statements:
    """The texts of one table."""

    def __init__(self, table: Table[Any]) -> None:
        self.table = table
        self.stored = stored_columns(table)
        self.key = ("key", *table.key[2:]) if table.packed else table.key
        self.values = _values_of(table)
        """A row as its columns hold it, sealed."""
        self.inserted = self.values if not table.serial else lambda row: astuple(row)[1:]
        """What `insert` and `put` bind."""
        self._columns = ",".join(expression(table, name) for name in table.columns)
        self._names = [name for name in self.stored if not (table.serial and name in self.key)]
        self._rest = [name for name in self.stored if name not in self.key]
        where = " and ".join(f"{quoted(name)} = ?" for name in self.key)
        self.load = f"select {self._columns} from {table.name} where {where}"
        places = ",".join("?" * len(self._names))
        names = ",".join(map(quoted, self._names))
        self.insert = f"insert into {table.name} ({names}) values ({places})"
        self.put = self._on_conflict([f"{quoted(n)} = excluded.{quoted(n)}" for n in self._rest])
        sums = [f"{quoted(n)} = {quoted(n)} + excluded.{quoted(n)}" for n in table.sums]
        self.add = self._on_conflict(sums) if sums else ""
        self.delete = f"delete from {table.name} where {where}"
        self.last = self.greatest(self.key[0])
        self.any_row = f"select 1 from {table.name} limit 1"
        self._where = where
        self._finds: dict[Index[Any], str] = {}
        self._ranges: dict[tuple[Index[Any], Key], Range] = {}
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

    def find(self, index: Index[Any]) -> str:
        """The row with a key of a unique index."""
        text = self._finds.get(index)
        if text is None:
            conditions = [f"{expression(self.table, name)} = ?" for name in index.columns]
            conditions += _where_of(index)
            text = f"select {self._columns} from {_through(index)} where {' and '.join(conditions)}"
            self._finds[index] = text
        return text

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

    def range(self, index: Index[Any], shape: Key) -> Range:
        """Rows in the order of an index; a shape is the fields of `Shape`."""
        found = self._ranges.get((index, shape))
        if found is None:
            found = self._ranges[index, shape] = self._make_range(index, Shape(*shape))
        return found

    def _make_range(self, index: Index[Any], shape: Shape) -> Range:
        table = self.table
        places = [expression(table, name) for name in index.columns]
        bind: Callable[[Key, Key, Key], Key] = _plainly
        if table.packed and index.columns[:2] == table.key[:2]:
            places = ["key", *places[2:]]
            conditions, bind = _packed_bounds(places, shape)
        else:
            conditions = [f"{place} = ?" for place in places[: shape.prefix]]
            rest = places[shape.prefix :]
            for sign, width in ((">", shape.after), ("<", shape.before)):
                if width is not None:
                    conditions.append(_compared(rest[:width], sign))
        conditions += _where_of(index)
        if not index.unique:
            # Where the index leaves a choice, the key decides.
            places += [quoted(name) for name in self.key if quoted(name) not in places]
        is_packed = places[0] == "key"
        del places[: max(shape.prefix - 1, 0) if is_packed else shape.prefix]
        names = self._columns
        if shape.columns is not None:
            names = ", ".join(expression(table, name) for name in shape.columns)
        text = f"select {names} from {_through(index)}"
        if conditions:
            text += f" where {' and '.join(conditions)}"
        end = " desc" if shape.reverse else ""
        if places:
            text += f" order by {', '.join(place + end for place in places)}"
        return Range(text + (" limit ?" if shape.limit else ""), bind)

    # --- writing

    def stored_key(self, key: Key) -> Key:
        """The key of a row as its columns hold it."""
        return (packed(key[0], key[1]), *key[2:]) if self.table.packed else key

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


def packed(number: int, ord: int) -> int:
    """Both halves of a key as one integer."""
    return (number << ORD_BITS) | ord


def stored_columns(table: Table[Any]) -> tuple[str, ...]:
    """The columns of a table in the file."""
    names = table.columns
    if table.packed:
        assert names[:2] == table.key[:2]
        names = ("key", *names[2:])
    return (*names, "seal") if table.sealed else names


def quoted(name: str) -> str:
    return f'"{name}"' if name in KEYWORDS else name


def expression(table: Table[Any], name: str) -> str:
    """A column of a row as SQL: the halves of a packed key are taken out of it."""
    if table.packed and name == table.key[0]:
        return f"key >> {ORD_BITS}"
    if table.packed and name == table.key[1]:
        return f"key & {ORD_MASK}"
    return quoted(name)


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


def _through(index: Index[Any]) -> str:
    """The table, with the index that has to be used: the planner knows nothing of the rows."""
    table = index.table
    if index is table.primary and not table.rowid:
        return table.name
    return f"{table.name} indexed by {table.name}_{index.name}"


def _where_of(index: Index[Any]) -> list[str]:
    return [] if index.where is None else [f"({index.where})"]


def _compared(places: list[str], sign: str) -> str:
    if len(places) == 1:
        return f"{places[0]} {sign} ?"
    return f"({', '.join(places)}) {sign} ({', '.join('?' * len(places))})"


def _plainly(prefix: Key, after: Key, before: Key) -> Key:
    return (*prefix, *after, *before)


def _packed_bounds(
    places: list[str], shape: Shape
) -> tuple[list[str], Callable[[Key, Key, Key], Key]]:
    """Conditions on `key` and what follows it in an index, and what they bind."""
    size = shape.prefix
    if size >= 2:
        conditions = [f"{place} = ?" for place in places[: size - 1]]
        rest = places[size - 1 :]
        for sign, width in ((">", shape.after), ("<", shape.before)):
            if width is not None:
                conditions.append(_compared(rest[:width], sign))
        return conditions, lambda p, a, b: (packed(p[0], p[1]), *p[2:], *a, *b)
    low, bind_low = _packed_bound(places, size, shape.after, _AFTER)
    high, bind_high = _packed_bound(places, size, shape.before, _BEFORE)
    return [*low, *high], lambda p, a, b: (*bind_low((*p, *a)), *bind_high((*p, *b)))


class _Side(NamedTuple):
    """One end of a range: signs for a bound, for the end of the session, and the ords there."""

    sign: str
    sign_within: str
    beyond: int
    within: int


_AFTER = _Side(">", ">=", ORD_MASK, 0)
_BEFORE = _Side("<", "<=", 0, ORD_MASK)


def _packed_bound(
    places: list[str], prefix: int, width: int | None, side: _Side
) -> tuple[list[str], Callable[[Key], Key]]:
    """One end of a range whose prefix is a session or nothing."""
    given = prefix + (width or 0)
    if not given:
        return [], lambda key: ()
    if given > 1:
        return [_compared(places[: given - 1], side.sign)], _clamped
    if prefix:  # To the end of this session.
        return [f"key {side.sign_within} ?"], lambda key: (packed(key[0], side.within),)
    return [f"key {side.sign} ?"], lambda key: (packed(key[0], side.beyond),)


def _clamped(key: Key) -> Key:
    """An ord that no row can have is the nearest place outside the session."""
    ord = max(-1, min(key[1], ORD_MASK + 1))
    return ((key[0] << ORD_BITS) + ord, *key[2:])
