"""The second port: where the bytes of blobs live.

A place knows nothing of hashes, references or time: it keeps bytes under keys that are never used
twice. All methods block; async callers use a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class BlobWriter(Protocol):
    """Bytes on their way into a place."""

    def write(self, data: bytes) -> None:
        """The next piece, of CHUNK_BYTES or, as the last one, less. StorageFull, Unavailable."""
        ...

    def finish(self) -> None:
        """Everything was written: durable when this returns."""
        ...

    def abort(self) -> None:
        """Forget what was written; never raises."""
        ...


class BlobPlace(Protocol):
    """Bytes by tenant and key."""

    @property
    def name(self) -> str:
        """Stored with each blob, so that a store opened with another place can say so."""
        ...

    def begin(self, tenant: str, key: str) -> BlobWriter:
        """Write bytes under a new key."""
        ...

    def read(self, tenant: str, key: str, first: int = 0) -> Iterator[bytes]:
        """The bytes from position `first` on, in pieces of any size; BlobNotFound."""
        ...

    def delete(self, tenant: str, key: str) -> None:
        """Remove the bytes; a key without bytes is fine."""
        ...

    def close(self) -> None: ...
