"""Seals: a checksum per row over its key and what no link of the hash chain vouches for.

Not a secret: whoever can write the file can compute it. It finds damage, and changes by somebody
who does not know of it. Rows are sealed where they are written; a row whose sealed columns are all
null (a node that is not hidden) has none.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any
from zlib import crc32

import msgspec

from ledgerstone.tables.table import Key, Table

_encode = msgspec.msgpack.Encoder().encode


def seal_of(key: Key, values: Key) -> int:
    """The checksum; no two rows have the same encoding."""
    return crc32(_encode((*key, *values)))


def sealer(table: Table[Any]) -> Callable[[Key], int | None]:
    """The seal of a row of a table, given the values of its columns."""
    places = [table.columns.index(name) for name in (*table.key, *table.sealed)]
    columns = itemgetter(*places)
    if any(name not in table.optional for name in table.sealed):
        return lambda values: crc32(_encode(columns(values)))
    sealed = itemgetter(*places[len(table.key) :])
    nothing = (None,) * len(table.sealed)

    def seal_some(values: Key) -> int | None:
        return None if sealed(values) == nothing else crc32(_encode(columns(values)))

    return seal_some
