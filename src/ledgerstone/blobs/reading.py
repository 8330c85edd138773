"""Bytes on their way out: every piece is compared with its sum before anybody gets it."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from hashlib import sha256
from typing import Protocol

from ledgerstone.commands.blobs import GetBlob
from ledgerstone.errors import BlobNotFound, Corrupt
from ledgerstone.ports.backend import Backend
from ledgerstone.ports.blobs import BlobPlace
from ledgerstone.records.blobs import CHUNK_BYTES, Blob

SUM_BYTES = 32


class _Hash(Protocol):
    def hexdigest(self) -> str: ...


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


def checked(place: BlobPlace, tenant: str, blob: Blob, first: int = 0) -> Generator[bytes]:
    """The bytes from `first` on, in pieces that are proved; Corrupt, BlobNotFound.

    From the beginning the whole is proved as well, before its last piece is handed out.
    """
    if len(blob.sums) != _count(blob) * SUM_BYTES:
        raise Corrupt("blobs", blob.ref, "sums", "not one for each piece")
    n, skip = divmod(first, CHUNK_BYTES)
    if first >= blob.size_bytes and blob.size_bytes:
        return
    whole = sha256() if n == 0 else None
    pieces = chunked(place.read(tenant, blob.key, n * CHUNK_BYTES))
    for at in range(n, _count(blob)):
        data = next(pieces, b"")
        _check(blob, at, data)
        if whole is not None:
            whole.update(data)
        if at == _count(blob) - 1:
            _check_end(blob, pieces, whole)
        yield data[skip:] if skip else data
        skip = 0
    if not blob.size_bytes:
        _check_end(blob, pieces, whole)


def is_there(place: BlobPlace, tenant: str, blob: Blob) -> bool:
    """Whether the bytes of a blob are in their place, by a look at the first piece."""
    pieces = checked(place, tenant, blob)
    try:
        next(pieces, None)
    except (BlobNotFound, Corrupt):
        return False
    finally:
        pieces.close()
    return True


def _count(blob: Blob) -> int:
    return -(-blob.size_bytes // CHUNK_BYTES)


def _check(blob: Blob, at: int, data: bytes) -> None:
    wanted = min(CHUNK_BYTES, blob.size_bytes - at * CHUNK_BYTES)
    if len(data) != wanted:
        raise Corrupt("blobs", blob.ref, "data", f"piece {at} has {len(data)} bytes of {wanted}")
    if sha256(data).digest() != blob.sums[at * SUM_BYTES : (at + 1) * SUM_BYTES]:
        raise Corrupt("blobs", blob.ref, "data", f"piece {at} has another sum")


def _check_end(blob: Blob, pieces: Iterator[bytes], whole: _Hash | None) -> None:
    if next(pieces, b""):
        raise Corrupt("blobs", blob.ref, "data", f"more than {blob.size_bytes} bytes")
    if whole is not None and whole.hexdigest() != blob.ref:
        raise Corrupt("blobs", blob.ref, "data", "the whole has another SHA-256")


class Reading:
    """The proved pieces of one blob, one at a time, from any thread."""

    def __init__(
        self, backend: Backend, place: BlobPlace, tenant: str, blob: Blob, first: int = 0
    ) -> None:
        self._backend = backend
        self._tenant = tenant
        self._blob = blob
        self._pieces = checked(place, tenant, blob, first)
        self._lock = threading.Lock()

    def next(self) -> bytes | None:
        """The next piece; None at the end."""
        with self._lock:
            try:
                return next(self._pieces, None)
            except BlobNotFound:
                raise self._lost() from None

    def rest(self) -> bytes:
        """Everything that is left."""
        pieces = []
        while (piece := self.next()) is not None:
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Let go of what the place holds open."""
        with self._lock:
            self._pieces.close()

    def _lost(self) -> Exception:
        """Bytes that are not there: collected meanwhile, or lost though their row is there."""
        ref = self._blob.ref
        (now,) = self._backend.read((GetBlob(tenant=self._tenant, ref=ref),))
        if now is None or now.key != self._blob.key:
            return BlobNotFound(ref)
        return Corrupt("blobs", ref, "data", "its bytes are not there")
