"""The schema of a SQLite file, made from the declarations; migrations have to make the same."""

from __future__ import annotations

from typing import Any

from ledgerstone.engines.statements import expression, quoted, stored_columns
from ledgerstone.tables.schema import TABLES
from ledgerstone.tables.table import Index, Table


def schema() -> list[str]:
    """Every table and index of the declarations."""
    return [text for table in TABLES for text in (create_table(table), *create_indexes(table))]


def create_table(table: Table[Any]) -> str:
    """A strict table; without a rowid, unless its key is one integer or it wants one of its own."""
    lines = [f"  {_column(table, name)}" for name in stored_columns(table)]
    key = _key(table)
    if not _is_rowid(table) and not table.rowid:
        lines.append(f"  primary key ({', '.join(map(quoted, key))})")
    end = ") strict" if _is_rowid(table) or table.rowid else ") strict, without rowid"
    return f"create table {table.name} (\n" + ",\n".join(lines) + f"\n{end}"


def create_indexes(table: Table[Any]) -> list[str]:
    """The indexes beside the key; of a table with a rowid of its own, that of the key too."""
    indexes = [one for one in table.indexes.values() if one is not table.primary or table.rowid]
    return [_create_index(one) for one in indexes]


def _create_index(index: Index[Any]) -> str:
    table = index.table
    columns = [expression(table, name) for name in index.columns]
    if table.packed and index.columns[:2] == table.key[:2]:
        columns = ["key", *columns[2:]]
    unique = "unique " if index.unique else ""
    where = "" if index.where is None else f" where {index.where}"
    name = f"{table.name}_{index.name}"
    return f"create {unique}index {name} on {table.name} ({', '.join(columns)}){where}"


def _column(table: Table[Any], name: str) -> str:
    if name == "seal":
        return "seal integer"
    kind = table.types.get(name, "integer")
    if _is_rowid(table) and (name,) == _key(table):
        return f"{quoted(name)} {kind} primary key"
    return f"{quoted(name)} {kind}" + ("" if name in table.optional else " not null")


def _key(table: Table[Any]) -> tuple[str, ...]:
    return ("key", *table.key[2:]) if table.packed else table.key


def _is_rowid(table: Table[Any]) -> bool:
    """Whether the key is one integer, which is then the rowid."""
    (first, *more) = _key(table)
    return not table.rowid and not more and table.types.get(first, "integer") == "integer"
