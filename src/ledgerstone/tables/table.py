"""Declaring tables: row type, key, indexes, and what belongs together.

Everything an engine needs follows from a declaration: its SQL schema and statements, or its
dictionaries and sorted keys, what a purge removes, what a copy takes along. Rows are values: to
change one is to put another in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec

R = TypeVar("R", bound=msgspec.Struct)
Key: TypeAlias = tuple[Any, ...]

ORD_BITS = 32
SQL_TYPES = {int: "integer", str: "text", bytes: "blob"}


class Index(Generic[R]):
    """The rows of a table in another order; `unique` ones also find a row by all their columns.

    A partial index holds only some rows: `where` says which in SQL, `holds` in Python.
    """

    def __init__(
        self,
        table: Table[R],
        name: str,
        columns: tuple[str, ...],
        *,
        unique: bool = False,
        where: str | None = None,
        holds: Callable[[R], bool] | None = None,
    ) -> None:
        if (where is None) != (holds is None):
            raise ValueError(f"{table.name}.{name}: a condition is needed in SQL and in Python")
        self.table = table
        self.name = name
        self.columns = columns
        self.unique = unique
        self.where = where
        self.holds = holds
        self.key_of: Callable[[R], Key] = _getter(columns)

    def __repr__(self) -> str:
        return f"<{self.table.name}.{self.name}>"


class Table(Generic[R]):
    """A table.

    packed   the first two columns of the key are one integer in SQL: number << 32 | the second
    serial   the engine gives the key, which rises with every commit of the store
    rowid    in SQLite the table has a rowid of its own, apart from its key
    owner    the column with the number of the session that a row belongs to, and goes with
    tenant   whether rows name their tenant in a column `tenant`
    sums     columns that `add` adds to
    sealed   columns that a checksum vouches for, since no link of the hash chain does
    """

    def __init__(
        self,
        name: str,
        row: type[R],
        key: tuple[str, ...],
        *,
        packed: bool = False,
        serial: bool = False,
        rowid: bool = False,
        owner: str | None = None,
        sums: tuple[str, ...] = (),
        sealed: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.row = row
        self.columns: tuple[str, ...] = row.__struct_fields__
        self.key = key
        self.packed = packed
        self.serial = serial
        self.rowid = rowid
        self.owner = owner
        self.sums = sums
        self.sum_places = [self.columns.index(name) for name in sums]
        self.sealed = sealed
        self.primary: Index[R] = Index(self, "primary", key, unique=True)
        self.indexes: dict[str, Index[R]] = {"primary": self.primary}
        self.key_of = self.primary.key_of
        hints = get_type_hints(row)
        self.types = {column: _sql_type(hint) for column, hint in hints.items()}
        self.optional = frozenset(
            column for column, hint in hints.items() if type(None) in get_args(hint)
        )
        unknown = {*key, *sums, *sealed, *([owner] if owner else [])} - set(self.columns)
        if unknown:
            raise ValueError(f"{name} has no columns {sorted(unknown)}")

    @property
    def tenant(self) -> bool:
        return "tenant" in self.columns

    def index(
        self,
        name: str,
        *columns: str,
        unique: bool = False,
        present: str | None = None,
        where: str | None = None,
        holds: Callable[[R], bool] | None = None,
    ) -> Index[R]:
        """Declare an index; `present` names the column that is not null in every row it holds."""
        if present is not None:
            value = attrgetter(present)
            where, holds = f'"{present}" is not null', lambda row: value(row) is not None
        if name in self.indexes:
            raise ValueError(f"{self.name} has two indexes named {name}")
        index = Index(self, name, columns, unique=unique, where=where, holds=holds)
        self.indexes[name] = index
        return index

    def by_owner(self) -> Index[R]:
        """The index whose first column is the owner: the rows of a session."""
        return next(one for one in self.indexes.values() if one.columns[0] == self.owner)

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _getter(columns: tuple[str, ...]) -> Callable[[Any], Key]:
    get = attrgetter(*columns)
    return get if len(columns) > 1 else lambda row: (get(row),)


def _sql_type(hint: Any) -> str:
    for one in (hint, *get_args(hint)):
        if one in SQL_TYPES:
            return SQL_TYPES[one]
    return "text"  # Literal texts.
