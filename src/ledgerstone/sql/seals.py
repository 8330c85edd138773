"""Seals: a checksum per row over what no link of the chain vouches for.

Not a secret: whoever can write the file can compute it. It finds damage, and changes by somebody
who does not know of it.
"""

from __future__ import annotations

from zlib import crc32

import msgspec

from ledgerstone.sql.tx import Tx

_encode = msgspec.msgpack.Encoder().encode


def seal_of(*values: object) -> int:
    """The checksum over a row's key and columns; no two rows have the same encoding."""
    return crc32(_encode(values))


async def keeps_seals(tx: Tx) -> bool:
    """Whether this database has seals; verify has the chain and the recounts where it has not."""
    row = await tx.one("keeps_seals")
    return row is not None and bool(row[0])
