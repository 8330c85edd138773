"""Rows of bytes, evidence and memory as they stand in a line, with their whole keys."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ledgerstone import codec
from ledgerstone.backends.file_wire import (
    Blob,
    Json,
    Mention,
    SharedWire,
    joined,
    required,
    split,
)
from ledgerstone.commands.evidence import EvidenceRow
from ledgerstone.model.rows import MemoryRow
from ledgerstone.records.artifacts import Artifact
from ledgerstone.records.blobs import Blob as BlobRow
from ledgerstone.records.blobs import Upload
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.records.stats import Budget, BudgetMode, Period, Scope

SESSION_SCOPE = "s:"
"""How the scope of a session's artifacts begins."""


class BlobWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """Where the bytes of a blob are; they themselves are in no journal."""

    tenant: str
    ref: str
    size_bytes: int
    media_type: str | None = None
    place: str
    at_key: str
    created_us: int = 0
    touched_us: int = 0
    sums: bytes = b""

    @classmethod
    def of(cls, key: tuple[str, str], row: BlobRow) -> BlobWire:
        return cls(
            tenant=key[0],
            ref=row.ref,
            size_bytes=row.size_bytes,
            media_type=row.media_type,
            place=row.place,
            at_key=row.key,
            created_us=row.created_us,
            touched_us=row.touched_us,
            sums=row.sums,
        )

    def key(self) -> tuple[str, str]:
        return self.tenant, self.ref

    def row(self) -> BlobRow:
        return BlobRow(
            ref=self.ref,
            size_bytes=self.size_bytes,
            media_type=self.media_type,
            created_us=self.created_us,
            place=self.place,
            key=self.at_key,
            sums=self.sums,
            touched_us=self.touched_us,
        )


class UploadWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """Bytes on their way in or out."""

    tenant: str
    at_key: str
    place: str
    created_us: int = 0
    leaving: bool = False

    @classmethod
    def of(cls, key: tuple[str, str], row: Upload) -> UploadWire:
        return cls(
            tenant=key[0],
            at_key=row.key,
            place=row.place,
            created_us=row.created_us,
            leaving=row.leaving,
        )

    def key(self) -> tuple[str, str]:
        return self.tenant, self.at_key

    def row(self) -> Upload:
        return Upload(
            key=self.at_key,
            place=self.place,
            created_us=self.created_us,
            leaving=self.leaving,
        )


class ArtifactWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """One version of an artifact, of whichever owner."""

    tenant: str
    scope: str
    place: int
    id: str
    name: str
    version: int
    ref: str
    size_bytes: int
    uri: str
    session: str | None = None
    user: str | None = None
    media_type: str | None = None
    tool: str | None = None
    original_bytes: int | None = None
    shown_bytes: int | None = None
    created_us: int = 0
    metadata: Json = UNSET
    metadata64: Blob = UNSET

    @classmethod
    def of(cls, key: tuple[str, str, int], row: Artifact) -> ArtifactWire:
        fields: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN_ARTIFACT}
        said = None if row.metadata is None else codec.encode_json(row.metadata, "metadata")
        metadata, metadata64 = split(said)
        return cls(
            tenant=key[0],
            scope=key[1],
            place=key[2],
            metadata=metadata,
            metadata64=metadata64,
            **fields,
        )

    def key(self) -> tuple[str, str, int]:
        return self.tenant, self.scope, self.place

    def row(self) -> Artifact:
        fields: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN_ARTIFACT}
        said = joined(self.metadata, self.metadata64)
        return Artifact(metadata=None if said is None else codec.decode_json(said), **fields)

    def mention(self) -> Mention | None:
        own = self.scope.startswith(SESSION_SCOPE)
        return ("artifacts", (self.tenant, self.scope)) if own else None


_PLAIN_ARTIFACT = tuple(name for name in Artifact.__struct_fields__ if name != "metadata")


class EvidenceWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """One trace event or report, or at place 0 the word that there is a list."""

    tenant: str
    session: str
    kind: str
    n: int = 0
    created_us: int = 0
    body: Json = UNSET
    body64: Blob = UNSET

    @classmethod
    def of(cls, key: tuple[str, str, str, int], row: EvidenceRow) -> EvidenceWire:
        body, body64 = split(row.body)
        return cls(
            tenant=key[0],
            session=key[1],
            kind=key[2],
            n=key[3],
            created_us=row.created_us,
            body=body,
            body64=body64,
        )

    def key(self) -> tuple[str, str, str, int]:
        return self.tenant, self.session, self.kind, self.n

    def row(self) -> EvidenceRow:
        return EvidenceRow(self.n, self.created_us, required(self.body, self.body64))

    def mention(self) -> Mention | None:
        return "evidence", (self.tenant, self.session)


class BudgetWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """A budget; what of it is spent follows from the turns."""

    tenant: str
    id: str
    scope: Scope
    subject: str | None = None
    period: Period = "total"
    cost_nano: int | None = None
    currency: str = "USD"
    tokens: int | None = None
    mode: BudgetMode = "refuse_next"

    @classmethod
    def of(cls, key: tuple[str, str], row: Budget) -> BudgetWire:
        fields: dict[str, Any] = {name: getattr(row, name) for name in Budget.__struct_fields__}
        return cls(tenant=key[0], **fields)

    def key(self) -> tuple[str, str]:
        return self.tenant, self.id

    def row(self) -> Budget:
        return Budget(**{name: getattr(self, name) for name in Budget.__struct_fields__})

    def mention(self) -> Mention | None:
        if self.scope != "session":
            return None
        return "budgets", (self.tenant, self.subject or "")


class MemoryWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """A remembered value."""

    tenant: str
    namespace: str = ""
    name: str
    ttl_us: int | None = None
    created_us: int = 0
    updated_us: int = 0
    expires_us: int | None = None
    value: Json = UNSET
    value64: Blob = UNSET

    @classmethod
    def of(cls, key: tuple[str, str, str], row: MemoryRow) -> MemoryWire:
        value, value64 = split(row.value)
        return cls(
            tenant=key[0],
            namespace=key[1],
            name=key[2],
            ttl_us=row.ttl_us,
            created_us=row.created_us,
            updated_us=row.updated_us,
            expires_us=row.expires_us,
            value=value,
            value64=value64,
        )

    def key(self) -> tuple[str, str, str]:
        return self.tenant, self.namespace, self.name

    def row(self) -> MemoryRow:
        return MemoryRow(
            value=required(self.value, self.value64),
            ttl_us=self.ttl_us,
            created_us=self.created_us,
            updated_us=self.updated_us,
            expires_us=self.expires_us,
        )


class EmbeddingWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """A vector. The session may change under the same id, so all of them are the store's."""

    tenant: str
    kind: str
    id: str
    model: str = ""
    change: int = 0
    session: str | None = None
    namespace: str = ""
    created_us: int = 0
    metadata: Json = UNSET
    metadata64: Blob = UNSET
    vector: bytes

    @classmethod
    def of(cls, key: tuple[str, str, str], row: VectorRow) -> EmbeddingWire:
        metadata, metadata64 = split(row.metadata)
        fields: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN_VECTOR}
        return cls(tenant=key[0], metadata=metadata, metadata64=metadata64, **fields)

    def key(self) -> tuple[str, str, str]:
        return self.tenant, self.kind, self.id

    def row(self) -> VectorRow:
        fields: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN_VECTOR}
        return VectorRow(metadata=joined(self.metadata, self.metadata64), **fields)

    def mention(self) -> Mention | None:
        return None if self.session is None else ("embeddings", (self.tenant, self.session))


_PLAIN_VECTOR = tuple(name for name in VectorRow.__struct_fields__ if name != "metadata")


class SpaceWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """What the vectors of one model have in common; its counts never go back."""

    tenant: str
    model: str = ""
    dimension: int
    count: int = 0
    changes: int = 0
    drops: int = 0

    @classmethod
    def of(cls, key: tuple[str, str], row: Space) -> SpaceWire:
        fields: dict[str, Any] = {name: getattr(row, name) for name in Space.__struct_fields__}
        return cls(tenant=key[0], **fields)

    def key(self) -> tuple[str, str]:
        return self.tenant, self.model

    def row(self) -> Space:
        return Space(**{name: getattr(self, name) for name in Space.__struct_fields__})
