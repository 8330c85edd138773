"""The rows of one table that a transaction knows of, and those that wait to be written."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeAlias

from ledgerstone.engines.sqlite.rows import statements_of
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.transaction import UNKNOWN

Writes: TypeAlias = tuple[list[Key], dict[Key, list[Key]], list[Key], list[Key]]
"""Rows as their columns hold them: keys to remove, changes by what moved, inserts, puts."""


class NotTaken(Exception):
    """Waiting rows could not be written; its cause says why. Nobody knows whose they are."""


class KeyTaken(NotTaken):
    """There is a row already with a key, or a unique value, that was said to be new."""


class TableBuffer:
    """What a transaction knows of one table, and what it has not yet written of it.

    A table is `mixed` when not all that waits is inserted.
    """

    __slots__ = ("adds", "before", "empty", "firsts", "mixed", "rows", "table", "texts")

    def __init__(self, table: Table[Any]) -> None:
        self.table = table
        self.texts = statements_of(table)
        self.rows: dict[Key, Any] = {}
        """Rows as they are now, by key; None where there is none."""
        self.before: dict[Key, Any] = {}
        """Of the rows that wait to be written: what the file has, or UNKNOWN."""
        self.mixed = False
        self.adds: dict[Key, Any] = {}
        self.firsts: dict[Index[Any], set[Any]] = {}
        """Of the indexes that were asked for while rows wait: in which places rows change."""
        self.empty: bool | None = None

    def forget(self) -> None:
        self.rows.clear()
        self.written()
        self.adds.clear()
        self.empty = None

    def written(self) -> None:
        """No row waits any more."""
        self.before.clear()
        self.firsts.clear()
        self.mixed = False

    def wait(self, written: dict[Key, Any], new: Collection[Key]) -> None:
        """Rows wait, some of them new: the file has none there, unless it waits to be deleted."""
        self.mixed = True
        rows = self.rows
        for key, row in written.items():
            old = rows.get(key, UNKNOWN)
            if key in new:
                if old is not UNKNOWN and old is not None:
                    raise KeyTaken
                old = None
            self.before.setdefault(key, old)
            rows[key] = row

    def note_firsts(self, index: Index[Any], values: set[Any], keys: Iterable[Key]) -> None:
        """Add the first columns of rows that wait, as they are and as the file has them."""
        name = index.columns[0]
        for key in keys:
            old = self.before[key]
            if old is UNKNOWN:
                values.add(UNKNOWN)
            for row in (old, self.rows[key]):
                if row is not UNKNOWN and row is not None:
                    values.add(getattr(row, name))

    def sorted_writes(self) -> Writes:
        """What becomes of each row that waits, given what the file has."""
        texts = self.texts
        drops: list[Key] = []
        changes: dict[Key, list[Key]] = {}
        inserts: list[Key] = []
        puts: list[Key] = []
        values_of, serial, movable = texts.inserted, self.table.serial, texts.movable
        for key, old in self.before.items():
            row = self.rows[key]
            if row is None:
                drops.append(texts.stored_key(key))
            elif old is None:
                inserts.append(values_of(row))
            elif old is UNKNOWN and not serial:
                puts.append(values_of(row))
            elif serial or not movable or texts.keeps_places(old, row):
                moved = texts.moved(old, row) if movable and not serial else ()
                changes.setdefault(movable if serial else moved, []).append(texts.values(row))
            else:
                drops.append(texts.stored_key(key))
                inserts.append(values_of(row))
        return drops, changes, inserts, puts
