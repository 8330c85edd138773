"""Blobs: bytes kept once per tenant by their SHA-256."""

from __future__ import annotations

import msgspec

from ledgerstone.records import Created

CHUNK_BYTES = 1 << 20
"""Bytes travel, and are checked, in pieces of this size."""


class BlobRef(Created, msgspec.Struct, frozen=True, kw_only=True):
    """A blob by name; `ref` is the SHA-256 of its bytes, in hex."""

    ref: str
    size_bytes: int
    media_type: str | None = None
    created_us: int = 0

    def __str__(self) -> str:
        return self.ref


class Blob(BlobRef, frozen=True, kw_only=True):
    """A blob and where its bytes are: the name of the place and the key there.

    `sums` are the SHA-256 of its chunks, one after the other, so that no piece of it is handed
    out unchecked. `touched_us` is when it was put last: the collector spares what is young.
    """

    place: str
    key: str
    sums: bytes = b""
    touched_us: int = 0


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that no blob owns, yet or any more: on their way in, or on their way out.

    `leaving`: a collector decided that they go, so no blob can be made of them any more.
    """

    key: str
    place: str
    created_us: int
    leaving: bool = False


class BlobCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many blobs a tenant has, and how many of them something refers to.

    `roots` counts what refers to bytes, whether those are there or not.
    """

    blobs: int = 0
    size_bytes: int = 0
    referenced: int = 0
    uploads: int = 0
    roots: int = 0


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection found and removed, or would remove when `dry_run`.

    roots: what refers to bytes (artifacts, attachments, live checkpoints); retained and deleted
    count blobs, `elsewhere` blobs and uploads that could go but lie in a place that is not open;
    the rest what was swept beside them.
    """

    roots: int = 0
    retained: int = 0
    deleted: int = 0
    freed_bytes: int = 0
    values: int = 0
    uploads: int = 0
    attachments: int = 0
    memories: int = 0
    elsewhere: int = 0
    dry_run: bool = False


class Attachment(msgspec.Struct, frozen=True):
    """An intent, and the time of the commit that used it."""

    session: str
    id: str
    uri: str
    intent_us: int
    committed_us: int | None = None
