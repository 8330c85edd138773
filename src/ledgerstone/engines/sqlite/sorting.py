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


def sort(texts: Statements, before: dict[Key, Any], rows: dict[Key, Any]) -> Work:
    """What becomes of each row that waits, given what the file has."""
    work = Work([], {}, [], [])
    drops, changes, inserts, puts = work
    values_of, serial, movable = texts.inserted, texts.table.serial, texts.movable
    for key, old in before.items():
        row = rows[key]
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
    return work
