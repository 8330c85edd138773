"""Memories by namespace and key, and vectors."""

from __future__ import annotations

import msgspec

from ledgerstone.tables.table import Table


class MemoryRow(msgspec.Struct, frozen=True, gc=False):
    """A remembered value as canonical JSON."""

    tenant: str
    namespace: str
    key: str
    value: bytes
    ttl_us: int | None
    created_us: int
    updated_us: int
    expires_us: int | None


class EmbeddingRow(msgspec.Struct, frozen=True, gc=False):
    """A vector: little-endian 32-bit floats. `change` is its place in the life of its space."""

    tenant: str
    kind: str
    id: str
    model: str
    change: int
    session: str | None
    namespace: str
    metadata: bytes | None
    created_us: int
    vector: bytes


class SpaceRow(msgspec.Struct, frozen=True, gc=False):
    """The vectors of a model: their dimension, and what an index has to follow."""

    tenant: str
    model: str
    dimension: int
    count: int
    changes: int
    drops: int


MEMORIES = Table(
    "memories",
    MemoryRow,
    ("tenant", "namespace", "key"),
    sealed=("value", "ttl_us", "created_us", "updated_us", "expires_us"),
)
MEMORIES_BY_EXPIRY = MEMORIES.index("expiry", "tenant", "expires_us", present="expires_us")

EMBEDDINGS = Table(
    "embeddings",
    EmbeddingRow,
    ("tenant", "kind", "id"),
    rowid=True,
    sealed=("model", "change", "session", "namespace", "metadata", "created_us", "vector"),
)
EMBEDDINGS_BY_CHANGE = EMBEDDINGS.index("change", "tenant", "model", "change", unique=True)
EMBEDDINGS_BY_SESSION = EMBEDDINGS.index("session", "tenant", "session", present="session")

SPACES = Table("spaces", SpaceRow, ("tenant", "model"))
