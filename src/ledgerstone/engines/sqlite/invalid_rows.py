"""Whether a failed command met rows that do not fit their columns.

The tables are STRICT, so SQLite itself keeps types and nulls right: only damaged pages hold others.
Looking at every value of every row would cost each read; so it is done when a command has failed
with an error that is none of ours. Then the command runs once more, and whatever it reads is looked
at. A row that does not fit is `Corrupt`; without one, the error is a defect of our own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import apsw

from ledgerstone.errors import Corrupt
from ledgerstone.tables.table import Key

_FITS: dict[str, tuple[type, ...]] = {
    "INTEGER": (int,),
    "TEXT": (str,),
    "BLOB": (bytes,),
    "REAL": (float, int),
}


def find_damage(connection: apsw.Connection, run: Callable[[], Any]) -> Corrupt | None:
    """What `run`, in the open transaction of this connection, trips over; None when all fits.

    What it writes is undone.
    """
    found: list[Corrupt] = []

    def look(cursor: apsw.Cursor, row: Key) -> Key:
        damage = _find_invalid(connection, cursor, row)
        if damage is not None:
            found.append(damage)
            raise damage
        return row

    connection.execute("SAVEPOINT look")
    connection.row_trace = look
    try:
        with suppress(Exception):
            run()
    finally:
        connection.row_trace = None
        connection.execute("ROLLBACK TO look; RELEASE look")
    return found[0] if found else None


def _find_invalid(connection: apsw.Connection, cursor: apsw.Cursor, row: Key) -> Corrupt | None:
    for value, (_, kind, database, table, column) in zip(row, cursor.description_full, strict=True):
        if not column:
            continue  # Computed, not stored.
        if value is None:
            _, _, not_null, _, _ = connection.column_metadata(database, table, column)
            fits = not not_null
        else:
            fits = isinstance(value, _FITS.get((kind or "").upper(), (object,)))
        if not fits:
            key = ", ".join(str(one) for one in row if isinstance(one, int))
            reason = f"{type(value).__name__} in a column of {kind}"
            return Corrupt(table, key, column, reason)
    return None
