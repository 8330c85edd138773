"""Bytes in an object store: one object per key, under <prefix>/<tenant hash>/<key hash>.

A store is proved before it is used: two writes of one new name must have one winner. Stores that
call themselves compatible and let both win would lose bytes without a word.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress

from ledgerstone.blobs.names import key_name, tenant_name
from ledgerstone.blobs.object_calls import PART_BYTES, REQUEST_S, Bucket, Parts, parse_address
from ledgerstone.errors import (
    AlreadyExists,
    BlobNotFound,
    LedgerstoneError,
    NotSupported,
    StoreClosed,
)
from ledgerstone.records.blobs import CHUNK_BYTES

PROBE = ".ledgerstone-probe-"


def open_objects(url: str, *, request_s: float = REQUEST_S, read_only: bool = False) -> Objects:
    """Open and prove a store; `request_s` is the deadline of one request.

    `read_only`: it is not proved, since that writes.

    InvalidValue for a url, bucket or credentials that are not accepted; NotSupported for a store
    that cannot do what is needed; ReadOnly without the rights to write; Unavailable.
    """
    bucket = Bucket(parse_address(url), request_s=request_s)
    if not read_only:
        prove(bucket)
    return Objects(bucket)


def prove(bucket: Bucket) -> None:
    """Try on one new name all that will be needed, and leave nothing behind."""
    path, label = PROBE + secrets.token_hex(16), bucket.address.label
    bucket.probing = True
    try:
        if not bucket.put_new(path, b"first"):
            raise NotSupported("create-only writes", label, "a name that is new counts as taken")
        if bucket.put_new(path, b"other"):
            raise NotSupported(
                "create-only writes", label, "it lets a second writer of one name win; see blobs.md"
            )
        if bucket.get(path, 1, 99) != (b"irst", 5):
            raise NotSupported("reading a part of an object", label)
        bucket.delete(path)
    except BaseException:
        with suppress(LedgerstoneError):
            bucket.delete(path)
        raise
    finally:
        bucket.probing = False


class Objects:
    """A place for bytes in a bucket."""

    name = "objects"

    def __init__(self, bucket: Bucket) -> None:
        self._open: Bucket | None = bucket

    def begin(self, tenant: str, key: str) -> ObjectWriter:
        """Write bytes under a new key."""
        return ObjectWriter(self._bucket, _path(tenant, key), key)

    def read(self, tenant: str, key: str, first: int = 0) -> Iterator[bytes]:
        """The bytes from `first` on.

        Each request asks for a bounded part, so a reader that takes its time meets no deadline.
        """
        bucket, path = self._bucket, _path(tenant, key)
        while (found := bucket.get(path, first, PART_BYTES)) is not None:
            data, whole = found
            for start in range(0, len(data), CHUNK_BYTES):
                yield data[start : start + CHUNK_BYTES]
            first += len(data)
            if first >= whole or not data:
                return
        raise BlobNotFound(key)

    def delete(self, tenant: str, key: str) -> None:
        """Remove the bytes; a key without bytes is fine."""
        self._bucket.delete(_path(tenant, key))

    def close(self) -> None:
        """Let go; closing twice is fine."""
        self._open = None

    @property
    def _bucket(self) -> Bucket:
        if self._open is None:
            raise StoreClosed("the store is closed: open it again")
        return self._open


class ObjectWriter:
    """Bytes on their way into a bucket: in one piece while they are few, else in parts."""

    def __init__(self, bucket: Bucket, path: str, key: str) -> None:
        self._bucket = bucket
        self._path = path
        self._key = key
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._parts: Parts | None = None
        self._sent = False

    def write(self, data: bytes) -> None:
        """The next piece; StorageFull, ReadOnly, Unavailable."""
        if self._parts is not None:
            self._parts.write(data)
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._waiting_bytes > PART_BYTES:
            self._sent = True
            self._parts = self._bucket.begin(self._path)
            self._parts.write(self._all())

    def finish(self) -> None:
        """Durable, as far as the store promises it, when this returns."""
        if self._parts is not None:
            self._parts.finish()
            return
        self._sent, data = True, self._all()
        if self._bucket.put_new(self._path, data):
            return
        # The name is new, so this is our own write whose answer was lost, unless it differs.
        if self._bucket.get(self._path, 0, PART_BYTES + 1) != (data, len(data)):
            self._sent = False
            raise AlreadyExists(self._key)

    def abort(self) -> None:
        """Forget what was written; what cannot be removed is left to the collector."""
        self._waiting.clear()
        if self._parts is not None:
            self._parts.abort()
        if self._sent:
            with suppress(LedgerstoneError):
                self._bucket.delete(self._path)

    def _all(self) -> bytes:
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data


def _path(tenant: str, key: str) -> str:
    return f"{tenant_name(tenant)}/{key_name(key)}"
