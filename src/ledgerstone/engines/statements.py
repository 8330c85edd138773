"""SQL texts that find rows of a table, made from its declaration; each database says the rest.

The two halves of a packed key are one column, `key` = number << 32 | ord. Texts are made once per
shape of a question and then found again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ledgerstone.tables.table import ORD_BITS, Index, Key, Table
from ledgerstone.tables.transaction import Range

ORD_MASK = (1 << ORD_BITS) - 1
KEYWORDS = frozenset(("key", "user"))
"""Columns whose names SQL takes for its own."""


class Shape(NamedTuple):
    """What distinguishes the texts of ranges over one index."""

    prefix: int
    after: int | None
    before: int | None
    limit: bool
    reverse: bool
    columns: tuple[str, ...] | None


class RangeText(NamedTuple):
    """A text, and the values it binds from prefix, after and before."""

    text: str
    bind: Callable[[Key, Key, Key], Key]


class Lookups:
    """The texts that look at one table. Values are bound where a `?` stands."""

    def __init__(self, table: Table[Any]) -> None:
        self.table = table
        self.key = ("key", *table.key[2:]) if table.packed else table.key
        self._columns = ", ".join(expression(table, name) for name in table.columns)
        self._where = " and ".join(f"{quoted(name)} = ?" for name in self.key)
        self.load = self.select(self._columns, None, [self._where])
        self._finds: dict[Index[Any], str] = {}
        self._ranges: dict[tuple[Index[Any], Key], RangeText] = {}

    def select(
        self, names: str, index: Index[Any] | None, conditions: list[str], end: str = ""
    ) -> str:
        """These columns of the rows that fulfil all conditions, found through an index."""
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"select {names} from {self.source(index)}{where}{end}"

    def source(self, index: Index[Any] | None) -> str:
        """The table, and how to use the index, where a database has to be told."""
        return self.table.name

    def find(self, index: Index[Any]) -> str:
        """The row with a key of a unique index."""
        text = self._finds.get(index)
        if text is None:
            conditions = [f"{expression(self.table, name)} = ?" for name in index.columns]
            text = self.select(self._columns, index, [*conditions, *where_of(index)])
            self._finds[index] = text
        return text

    def range(self, wanted: Range[Any]) -> tuple[str, Key]:
        """The text that finds the rows of a range, and what it binds."""
        prefix, after, before, limit = wanted.prefix, wanted.after, wanted.before, wanted.limit
        # A plain tuple: every look makes one.
        shape = (
            len(prefix),
            None if after is None else len(after),
            None if before is None else len(before),
            limit is not None,
            wanted.reverse,
            wanted.columns,
        )
        found = self._ranges.get((wanted.index, shape))
        text, bind = found or self.range_text(wanted.index, shape)
        bound = bind(prefix, after or (), before or ())
        return text, bound if limit is None else (*bound, limit)

    def range_text(self, index: Index[Any], shape: Key) -> RangeText:
        """Rows in the order of an index; a shape is the fields of `Shape`."""
        found = self._ranges[index, shape] = self._make_range(index, Shape(*shape))
        return found

    def _make_range(self, index: Index[Any], shape: Shape) -> RangeText:
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
        conditions += where_of(index)
        if not index.unique:
            # Where the index leaves a choice, the key decides.
            places += [quoted(name) for name in self.key if quoted(name) not in places]
        is_packed = places[0] == "key"
        del places[: max(shape.prefix - 1, 0) if is_packed else shape.prefix]
        names = self._columns
        if shape.columns is not None:
            names = ", ".join(expression(table, name) for name in shape.columns)
        order = ", ".join(place + (" desc" if shape.reverse else "") for place in places)
        end = (f" order by {order}" if order else "") + (" limit ?" if shape.limit else "")
        return RangeText(self.select(names, index, conditions, end), bind)

    def stored_key(self, key: Key) -> Key:
        """The key of a row as its columns hold it."""
        return (packed(key[0], key[1]), *key[2:]) if self.table.packed else key


def packed(number: int, ord: int) -> int:
    """Both halves of a key as one integer."""
    return (number << ORD_BITS) | ord


def stored_columns(table: Table[Any]) -> tuple[str, ...]:
    """The columns of a table in the database."""
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


def where_of(index: Index[Any]) -> list[str]:
    """The condition of a partial index."""
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
