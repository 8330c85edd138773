"""The tables of a schema, made from the declarations; migrations have to make the same.

How rows are laid out (the order of columns, what stays free of a page) is for the migrations alone.
"""

from __future__ import annotations

from typing import Any

from ledgerstone.engines.postgres.statements import tenant_column
from ledgerstone.engines.statements import expression, quoted, stored_columns
from ledgerstone.tables.graph import NODES, TURNS
from ledgerstone.tables.schema import TABLES
from ledgerstone.tables.table import Index, Table

_TYPES = {"integer": "bigint", "text": 'text collate "C"', "blob": "bytea"}
_SHORT: dict[Table[Any], dict[str, str]] = {
    NODES: {"parent": "integer", "seq": "integer", "run": "integer", "role": "smallint"},
    TURNS: {"leaf": "integer", "first_ord": "integer", "count": "integer"},
}
"""Numbers that no index has and no parameter is compared with, in most of all rows."""


def schema() -> list[str]:
    """Every table and index of the declarations."""
    return [text for table in TABLES for text in (create_table(table), *create_indexes(table))]


def create_table(table: Table[Any]) -> str:
    """A table with its key, unless it has a rowid of its own in SQLite, and so no key here."""
    tenant = tenant_column(table)
    lines = [] if tenant in table.columns else [f'{tenant} text collate "C" not null']
    lines += [_column(table, name) for name in stored_columns(table)]
    if not table.rowid:
        lines.append(f"primary key ({', '.join(map(quoted, _key(table)))})")
    return f"create table {table.name} (\n  " + ",\n  ".join(lines) + "\n)"


def create_indexes(table: Table[Any]) -> list[str]:
    """The indexes beside the key; of a table without one, that of the key too."""
    indexes = [one for one in table.indexes.values() if one is not table.primary or table.rowid]
    return [_create_index(one) for one in indexes]


def _create_index(index: Index[Any]) -> str:
    table = index.table
    columns = [_place(table, name) for name in index.columns]
    if table.packed and index.columns[:2] == table.key[:2]:
        columns = ["key", *columns[2:]]
    unique = "unique " if index.unique else ""
    where = "" if index.where is None else f" where {index.where}"
    name = f"{table.name}_{index.name}"
    return f"create {unique}index {name} on {table.name} ({', '.join(columns)}){where}"


def _place(table: Table[Any], name: str) -> str:
    place = expression(table, name)
    return place if place == quoted(name) else f"({place})"


def _column(table: Table[Any], name: str) -> str:
    if name == "seal":
        return "seal bigint"
    kind = _SHORT.get(table, {}).get(name) or _TYPES[table.types.get(name, "integer")]
    return f"{quoted(name)} {kind}" + ("" if name in table.optional else " not null")


def _key(table: Table[Any]) -> tuple[str, ...]:
    """The key; places in the feed are given out apart for each tenant's rows."""
    key = ("key", *table.key[2:]) if table.packed else table.key
    return ("tenant", *key) if table.serial else key
