"""One row of values made into many: an insert by name as a set-based insert, in one round trip."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ledgerstone.backends.postgres_port import Blobs, Ints, Texts, to_column
from ledgerstone.sql.tx import Row

CHUNK_ROWS = 500
CHUNK_BYTES = 8 * 1024 * 1024
# Every value is one parameter, in order, and nothing after them is one.
_INSERT = re.compile(
    r"(?P<head>insert into \w+\s+\((?P<columns>[^()]*)\))\s+values\s*\((?P<values>[^()]*)\)"
    r"(?P<tail>\s+on conflict (\((?P<keys>[^()]*)\) )?do (?P<then>nothing|update)[^$]*)?\s*\Z"
)
_ARRAYS = {int: "bigint[]", bool: "bigint[]", str: "text[]", bytes: "bytea[]"}


class ManyInsert:
    """A statement that can take many rows at once; `of` answers None for all others.

    An upsert cannot meet one of its own rows: `fits` says whether that could happen.
    """

    def __init__(self, head: str, tail: str, keys: tuple[int, ...]) -> None:
        self._head = head
        self._tail = tail
        self._keys = keys
        self._texts: dict[tuple[type | None, ...], str] = {}

    @classmethod
    def of(cls, text: str) -> ManyInsert | None:
        match = _INSERT.match(text)
        if match is None:
            return None
        values = _names(match["values"])
        if values != [f"${n}" for n in range(1, len(values) + 1)]:
            return None
        keys: tuple[int, ...] = ()
        if match["then"] == "update":
            columns = _names(match["columns"])
            keys = tuple(columns.index(name) for name in _names(match["keys"] or ""))
        return cls(match["head"], match["tail"] or "", keys)

    def fits(self, rows: Sequence[Row]) -> bool:
        """Whether no two rows are the same to an upsert."""
        if not self._keys:
            return True
        return len({tuple(row[n] for n in self._keys) for row in rows}) == len(rows)

    def call(self, rows: Sequence[Row]) -> tuple[str, list[list[Any]]]:
        """The text for these rows, and one array per column that has any value."""
        columns = [list(column) for column in zip(*rows, strict=True)]
        kinds = tuple(_kind(column) for column in columns)
        text = self._texts.get(kinds)
        if text is None:
            text = self._texts[kinds] = self._text(kinds)
        given = zip(columns, kinds, strict=True)
        return text, [_array(column, kind) for column, kind in given if kind]

    def _text(self, kinds: tuple[type | None, ...]) -> str:
        given = [n for n, kind in enumerate(kinds) if kind is not None]
        picked = ", ".join("null" if kind is None else f"u.c{n}" for n, kind in enumerate(kinds))
        arrays = ", ".join(
            f"${place}::{_ARRAYS[kinds[n] or str]}" for place, n in enumerate(given, start=1)
        )
        names = ", ".join(f"c{n}" for n in given)
        return f"{self._head} select {picked} from unnest({arrays}) as u ({names}){self._tail}"


def _array(column: list[Any], kind: type) -> list[Any]:
    """The column as an array in its binary form; neither driver escapes the texts of an array."""
    if kind is bytes:
        return Blobs(column)
    if kind is not str:
        return Ints(column)
    return Texts([None if text is None else to_column(text) for text in column])


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",")]


def _kind(column: Sequence[Any]) -> type | None:
    """The type of a column's values; None when it has none."""
    for value in column:
        if value is not None:
            return type(value)
    return None


def in_chunks(rows: Sequence[Row]) -> list[Sequence[Row]]:
    """Rows in parts that are bounded in number and in bytes."""
    parts, begin, size = list[Sequence[Row]](), 0, 0
    long = [n for n, column in enumerate(zip(*rows, strict=True)) if _kind(column) is bytes]
    for n, row in enumerate(rows):
        for column in long:
            size += len(row[column] or b"")
        if n + 1 - begin >= CHUNK_ROWS or size >= CHUNK_BYTES:
            parts.append(rows[begin : n + 1])
            begin, size = n + 1, 0
    if begin < len(rows):
        parts.append(rows[begin:])
    return parts
