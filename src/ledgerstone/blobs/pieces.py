"""Bytes travel, and are checked, in pieces of one size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledgerstone.records.blobs import CHUNK_BYTES


def chunked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of CHUNK_BYTES; only the last one is shorter, none is empty."""
    held = bytearray()
    for piece in pieces:
        if not held and len(piece) == CHUNK_BYTES:
            yield bytes(piece)
            continue
        view = memoryview(piece)
        while view:
            taken = view[: CHUNK_BYTES - len(held)]
            held += taken
            view = view[len(taken) :]
            if len(held) == CHUNK_BYTES:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)
