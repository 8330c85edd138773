"""What becomes of rows that wait: which are inserted, changed or removed, and in which columns."""

from __future__ import annotations

from typing import Any, NamedTuple

from ledgerstone.engines.sqlite.statements import Statements
from ledgerstone.tables.table import Key
from ledgerstone.tables.transaction import UNKNOWN


class Work(NamedTuple):
    """Rows as their columns hold them, by what becomes of them; changes by what moved."""

    drops: list[Key]
    changes: dict[Key, list[Key]]
    inserts: list[Key]
    puts: list[Key]


def sort(texts: Statements, seen: dict[Key, Any], waiting: dict[Key, Any]) -> Work:
    """What becomes of each row, given what is known of the file."""
    work = Work([], {}, [], [])
    values_of, serial, movable = texts.inserted, texts.table.serial, texts.movable
    for key, row in waiting.items():
        old = seen.get(key, UNKNOWN)
        if row is None:
            work.drops.append(texts.stored_key(key))
        elif old is None or (serial and key[0] < 0):
            work.inserts.append(values_of(row))
        elif serial:
            work.changes.setdefault(movable, []).append(texts.values(row))
        elif old is UNKNOWN:
            work.puts.append(values_of(row))
        elif not movable or texts.keeps_places(old, row):
            moved = texts.moved(old, row) if movable else ()
            work.changes.setdefault(moved, []).append(texts.values(row))
        else:
            work.drops.append(texts.stored_key(key))
            work.inserts.append(values_of(row))
    return work
