"""Rows as they stand in a line: JSON objects made from the declarations of the tables.

A row has the columns of its table in declared order; those that are null or at their default are
left out. Bytes that are JSON (bodies, metadata, documents) are embedded as they are, under the name
of their column. Any other bytes stand in base64 under that name with `64` behind it.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, get_args, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET, Raw, UnsetType

from ledgerstone.tables.schema import BY_NAME, TABLES
from ledgerstone.tables.table import Key, Table

MARGIN = 400
"""Levels of nesting that the reader's own stack may need besides those of the value."""
SURELY_FLAT = 64

Json: TypeAlias = Raw | UnsetType
Blob: TypeAlias = bytes | UnsetType
RowWires: TypeAlias = dict[str, list[Any]]
"""Rows as they stand in a line, by the names of their tables."""
Keys: TypeAlias = dict[str, list[tuple[int | str, ...]]]
"""Keys of rows that are gone, by the names of their tables."""

_raw = msgspec.json.Decoder(Raw)


def split(data: bytes | None) -> tuple[Json, Blob]:
    """The bytes as embedded JSON, or as a blob when they cannot be embedded unchanged."""
    if data is None:
        return UNSET, UNSET
    if b"\n" in data or b"\r" in data:
        return UNSET, data
    try:
        data.decode()
        if memoryview(_raw.decode(data)).nbytes != len(data):
            return UNSET, data  # It has spaces around it, which would not come back.
        if data.count(b"[") + data.count(b"{") > SURELY_FLAT:
            _raw.decode(b"[" * MARGIN + data + b"]" * MARGIN)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNSET, data
    return Raw(data), UNSET


def joined(embedded: Json, blob: Blob) -> bytes | None:
    """The bytes that `split` was given."""
    if isinstance(embedded, Raw):
        return bytes(embedded)
    return None if blob is UNSET else blob


class RowCodec:
    """The rows of one table."""

    def __init__(self, table: Table[Any]) -> None:
        self._row = table.row
        hints = get_type_hints(table.row)
        defaults = {field.name: field.default for field in msgspec.structs.fields(table.row)}
        self._bytes = [name for name, hint in hints.items() if bytes in (hint, *get_args(hint))]
        self._plain = [name for name in table.columns if name not in self._bytes]
        fields: list[Any] = []
        for name in table.columns:
            if name in self._bytes:
                fields += [(name, Json, UNSET), (f"{name}64", Blob, UNSET)]
            elif defaults[name] is not NODEFAULT:
                fields.append((name, hints[name], defaults[name]))
            elif type(None) in get_args(hints[name]):
                fields.append((name, hints[name], None))
            else:
                fields.append((name, hints[name]))
        self.wire = msgspec.defstruct(
            f"{table.name}_wire", fields, kw_only=True, omit_defaults=True, gc=False
        )

    def to_wire(self, row: Any) -> msgspec.Struct:
        """The row as it is written."""
        fields = {name: getattr(row, name) for name in self._plain}
        for name in self._bytes:
            fields[name], fields[f"{name}64"] = split(getattr(row, name))
        return self.wire(**fields)

    def from_wire(self, wire: Any) -> Any:
        """The row that was written."""
        fields = {name: getattr(wire, name) for name in self._plain}
        for name in self._bytes:
            fields[name] = joined(getattr(wire, name), getattr(wire, f"{name}64"))
        return self._row(**fields)


CODECS = {table.name: RowCodec(table) for table in TABLES}
_lists: list[Any] = [
    (name, types.GenericAlias(list, codec.wire), msgspec.field(default_factory=list))
    for name, codec in CODECS.items()
]
Put: Any = msgspec.defstruct("Put", _lists, kw_only=True, omit_defaults=True)
"""Rows by table, as they stand in a line."""


def put_of(rows: Iterable[tuple[Table[Any], Any]]) -> Any:
    """Rows as a part of a line; None for none."""
    wires: RowWires = {}
    for table, row in rows:
        wires.setdefault(table.name, []).append(CODECS[table.name].to_wire(row))
    return Put(**wires) if wires else None


def rows_in(put: Any) -> Iterator[tuple[Table[Any], Key, Any]]:
    """The rows of a part of a line, with their tables and keys."""
    if put is None:
        return
    for name, codec in CODECS.items():
        table = BY_NAME[name]
        for wire in getattr(put, name):
            row = codec.from_wire(wire)
            yield table, table.key_of(row), row


def keys_in(gone: Keys) -> Iterator[tuple[Table[Any], Key]]:
    """The keys that a part of a line removes."""
    for name, keys in gone.items():
        for key in keys:
            yield BY_NAME[name], tuple(key)
