"""Bytes by their SHA-256, and all that refers to them: attachments and artifacts."""

from __future__ import annotations

import msgspec

from ledgerstone.tables.table import Table


class BlobRow(msgspec.Struct, frozen=True, gc=False):
    """A blob, where its bytes are, and the SHA-256 of each piece of it, joined."""

    tenant: str
    ref: str
    size_bytes: int
    media_type: str | None
    place: str
    key: str
    sums: bytes
    created_us: int
    touched_us: int


class UploadRow(msgspec.Struct, frozen=True, gc=False):
    """Bytes that no blob owns: on their way in or, when `leaving`, on their way out."""

    tenant: str
    key: str
    place: str
    created_us: int
    leaving: int = 0


class ChunkRow(msgspec.Struct, frozen=True, gc=False):
    """A piece of bytes that are kept in the database."""

    tenant: str
    key: str
    n: int
    data: bytes


class AttachmentRow(msgspec.Struct, frozen=True, gc=False):
    """Which session needs which bytes: an intent, later the time of a commit."""

    tenant: str
    session: str
    id: str
    uri: str
    intent_us: int
    committed_us: int | None = None


class ArtifactRow(msgspec.Struct, frozen=True, gc=False):
    """A named version of a blob; its scope is a session (s:id), a user (u:id) or the tenant."""

    tenant: str
    id: str
    scope: str
    name: str
    version: int
    place: int
    uri: str
    ref: str
    size_bytes: int
    created_us: int
    body: bytes


BLOBS = Table(
    "blobs",
    BlobRow,
    ("tenant", "ref"),
    sealed=("size_bytes", "media_type", "place", "key", "sums", "created_us", "touched_us"),
)
UPLOADS = Table("uploads", UploadRow, ("tenant", "key"), sealed=("place", "created_us", "leaving"))
CHUNKS = Table("chunks", ChunkRow, ("tenant", "key", "n"), rowid=True)

ATTACHMENTS = Table(
    "attachments",
    AttachmentRow,
    ("tenant", "session", "id"),
    sealed=("uri", "intent_us", "committed_us"),
)
ATTACHMENTS_OPEN = ATTACHMENTS.index(
    "open",
    "tenant",
    "intent_us",
    where="committed_us is null",
    holds=lambda row: row.committed_us is None,
)
ATTACHMENTS_BY_BYTES = ATTACHMENTS.index("bytes", "tenant", "id")

ARTIFACTS = Table(
    "artifacts",
    ArtifactRow,
    ("tenant", "id"),
    sealed=(
        "scope", "name", "version", "place", "uri", "ref", "size_bytes", "created_us", "body",
    ),
)  # fmt: skip
ARTIFACTS_BY_VERSION = ARTIFACTS.index("version", "tenant", "scope", "name", "version", unique=True)
ARTIFACTS_IN_ORDER = ARTIFACTS.index("place", "tenant", "scope", "place", unique=True)
ARTIFACTS_BY_URI = ARTIFACTS.index("uri", "tenant", "uri", unique=True)
ARTIFACTS_BY_BYTES = ARTIFACTS.index("bytes", "tenant", "ref")
