"""Bytes inside the database of the backend: for small ones, and where there is no other place."""

from __future__ import annotations

from collections.abc import Iterator

from ledgerstone.commands.blobs import PutChunk, ReadChunk
from ledgerstone.errors import BlobNotFound
from ledgerstone.ports.backend import Backend
from ledgerstone.ports.blobs import BlobWriter
from ledgerstone.records.blobs import CHUNK_BYTES
from ledgerstone.rules.outcomes import lost_answers

NAME = "database"


class Database:
    """Each piece is a row. They go with the upload row, in one transaction, so that `delete` has
    nothing to do: whoever calls it forgets the upload next.
    """

    name = NAME

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def begin(self, tenant: str, key: str) -> BlobWriter:
        """Write bytes under a new key, which has an upload row."""
        return _Writer(self._backend, tenant, key)

    def read(self, tenant: str, key: str, first: int = 0) -> Iterator[bytes]:
        """The bytes from position `first` on; BlobNotFound when there are none at that place."""
        n, skip = divmod(first, CHUNK_BYTES)
        start = n
        while True:
            (data,) = self._backend.read((ReadChunk(tenant=tenant, key=key, n=n),))
            if data is None:
                if n == start:
                    raise BlobNotFound(key)
                return
            yield data[skip:] if skip else data
            skip = 0
            n += 1

    def delete(self, tenant: str, key: str) -> None:
        """See above."""

    def close(self) -> None:
        """The backend is somebody else's."""


class _Writer:
    """One row per piece; each is durable when `write` returns."""

    def __init__(self, backend: Backend, tenant: str, key: str) -> None:
        self._backend = backend
        self._tenant = tenant
        self._key = key
        self._n = 0

    def write(self, data: bytes) -> None:
        """The next piece."""
        command = PutChunk(tenant=self._tenant, key=self._key, n=self._n, data=data)
        with lost_answers(command):
            self._backend.write(command)
        self._n += 1

    def finish(self) -> None:
        """An empty blob has a piece as well, so that its absence can be told from it."""
        if self._n == 0:
            self.write(b"")

    def abort(self) -> None:
        """The rows go with the upload's."""
