"""SQL texts of a table in PostgreSQL, and the arrays that they bind.

Every text names the tenant as its first parameter. Where an index does not begin with it, it is
compared by another collation: then it is found as well, but not looked up by.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from msgspec.structs import astuple

from ledgerstone.engines.postgres.drivers.port import Blobs, Ints, Texts, to_column
from ledgerstone.engines.statements import (
    ORD_MASK,
    Lookups,
    expression,
    packed,
    quoted,
    where_of,
)
from ledgerstone.tables.table import ORD_BITS, Index, Key, Table

_TYPES = {"integer": "bigint", "text": "text", "blob": "bytea"}
_PLACE = "ledger_pos_of(u.number)"
"""The key of a new row of the serial table: its place in the feed."""


class Statements(Lookups):
    """The texts of one table. Those that write take many rows, as one array per column, or one."""

    def __init__(self, table: Table[Any]) -> None:
        self.tenant = tenant_column(table)
        super().__init__(table)
        self.names = ("key", *table.columns[2:]) if table.packed else table.columns
        rest = [quoted(name) for name in self.names if name not in self.key]
        self.many = self.select(self._columns, None, [self._among()])
        self.last = self.select(f"max({quoted(self.key[0])})", None, [])
        self.insert = self._insert()
        self.put = self._on_conflict([f"{name} = excluded.{name}" for name in rest])
        """Rows that are there or not; none of a serial table, whose keys are given here."""
        sums = [quoted(name) for name in table.sums]
        self.add = self._on_conflict([f"{name} = t.{name} + excluded.{name}" for name in sums])
        self.update = self._update(rest)
        self.delete = f"delete from {table.name} where {self._of_tenant()} and {self._among()}"
        texts = (self.insert, self.put, self.add, self.update)
        many, one = self._given(), self._given(one=True)
        self.of_one = {text: text.replace(many, one) for text in texts}
        """The same for a single row, whose values are bound as they are: that costs less."""
        self._places = [one.key_of for one in table.indexes.values() if one.unique]

    def select(
        self, names: str, index: Index[Any] | None, conditions: list[str], end: str = ""
    ) -> str:
        conditions = [self._of_tenant(index), *conditions, *self._within_session(index, conditions)]
        return numbered(super().select(names, index, conditions, end), 1)

    def find(self, index: Index[Any]) -> str:
        """The row with a key of a unique index.

        All its columns are compared as one: no other index fits that, however young the store is.
        """
        text = self._finds.get(index)
        if text is None:
            places = [expression(self.table, name) for name in index.columns]
            row, given = ", ".join(places), ", ".join(f"${n}" for n in range(2, len(places) + 2))
            same = [f"{place} = ${n}" for n, place in enumerate(places, start=2)]
            between = [f"({row}) >= ({given})", f"({row}) <= ({given})"]
            text = self.select(self._columns, index, [*same, *between, *where_of(index)])
            self._finds[index] = text
        return text

    def keeps_places(self, old: Any, row: Any) -> bool:
        """Whether a row stays where it was in all unique indexes."""
        return all(key_of(old) == key_of(row) for key_of in self._places)

    def values(self, row: Any) -> Key:
        """A row as its columns hold it."""
        values = astuple(row)
        return (packed(values[0], values[1]), *values[2:]) if self.table.packed else values

    def arrays(self, names: Sequence[str], rows: Sequence[Key]) -> list[Any]:
        """One array per column."""
        columns = zip(names, zip(*rows, strict=True), strict=True)
        return [_array(self._type(name), column) for name, column in columns]

    def _of_tenant(self, index: Index[Any] | None = None) -> str:
        first = (index or self.table.primary).columns[0]
        leads = first == self.tenant or (self.table.serial and first == self.table.key[0])
        return f"{quoted(self.tenant)} = $1" + ("" if leads else ' collate "POSIX"')

    def _within_session(self, index: Index[Any] | None, conditions: list[str]) -> list[str]:
        """What keeps to a session without its half of a packed key, for an index that begins with
        that: row-level security lets no operator through to an index that is not leakproof."""
        half = expression(self.table, self.table.key[0])
        if not self.table.packed or index is None or f"{half} = ?" not in conditions[:1]:
            return []
        return [f"key >= $2 << {ORD_BITS}", f"key <= ($2 << {ORD_BITS}) + {ORD_MASK}"]

    def _among(self) -> str:
        """The rows with the keys in some arrays."""
        arrays = ", ".join(f"?::{self._type(name)}[]" for name in self.key)
        names = ", ".join(map(quoted, self.key))
        if len(self.key) == 1:
            return f"{names} = any ({arrays})"
        return f"({names}) in (select * from unnest({arrays}))"

    def _insert(self) -> str:
        names = self.names if self.tenant in self.names else (self.tenant, *self.names)
        values = {name: f"u.{quoted(name)}" for name in self.names} | {self.tenant: "$1"}
        if self.table.serial:
            values[self.key[0]] = _PLACE
        return (
            f"insert into {self.table.name} as t ({', '.join(map(quoted, names))}) "
            f"select {', '.join(values[name] for name in names)} from {self._given()}"
        )

    def _on_conflict(self, changes: list[str]) -> str:
        then = f"update set {', '.join(changes)}" if changes else "nothing"
        return f"{self.insert} on conflict ({', '.join(map(quoted, self.key))}) do {then}"

    def _update(self, names: list[str]) -> str:
        if not names:
            return ""  # A row that is there is what it was.
        changes = ", ".join(f"{name} = u.{name}" for name in names)
        same = [f"t.{quoted(name)} = u.{quoted(name)}" for name in self.key]
        return (
            f"update {self.table.name} as t set {changes} from {self._given()} "
            f"where t.{self._of_tenant()} and {' and '.join(same)}"
        )

    def _given(self, *, one: bool = False) -> str:
        """What is bound as rows `u`."""
        end = "" if one else "[]"
        bound = ", ".join(f"?::{self._type(name)}{end}" for name in self.names)
        rows = f"(values ({bound}))" if one else f"unnest({bound})"
        return f"{rows} as u ({', '.join(map(quoted, self.names))})"

    def _type(self, name: str) -> str:
        return _TYPES[self.table.types.get(name, "integer")]  # Else it is the packed key.


def tenant_column(table: Table[Any]) -> str:
    """Where a row says whose it is; that of a run's record is null where there is none."""
    return "realm" if "tenant" in table.optional else "tenant"


@cache
def statements_of(table: Table[Any]) -> Statements:
    """The texts of a table."""
    return Statements(table)


def numbered(text: str, given: int) -> str:
    """The text with a number for every `?`; so many parameters come before them."""
    first, *parts = text.split("?")
    return first + "".join(f"${n}{part}" for n, part in enumerate(parts, start=given + 1))


def _array(kind: str, column: Sequence[Any]) -> list[Any]:
    """A column in its binary form; neither driver escapes the texts of an array."""
    if kind == "bytea":
        return Blobs(column)
    if kind == "bigint":
        return Ints(column)
    return Texts([None if text is None else to_column(text) for text in column])
