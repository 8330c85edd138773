"""What becomes of rows that wait: which are inserted, changed or removed, and in which columns."""

from __future__ import annotations

from typing import Any

from ledgerstone.engines.sqlite.statements import Statements
from ledgerstone.tables.table import Key
from ledgerstone.tables.transaction import UNKNOWN

Work = tuple[list[Key], dict[Key, list[Key]], list[Key], list[Key]]
"""Rows as their columns hold them: keys to remove, changes by what moved, inserts, puts."""


def sort(texts: Statements, before: dict[Key, Any], rows: dict[Key, Any]) -> Work:
    """What becomes of each row that waits, given what the file has."""
    drops: list[Key] = []
    changes: dict[Key, list[Key]] = {}
    inserts: list[Key] = []
    puts: list[Key] = []
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
    return drops, changes, inserts, puts
