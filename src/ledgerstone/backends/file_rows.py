"""Rows as they stand in a line of a journal; keys leave out the number of the line's session."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ledgerstone.backends.file_wire import Blob, Json, Wire, joined, required, split
from ledgerstone.model.rows import (
    AmendmentRow,
    NodeRow,
    NoteRow,
    SessionRow,
    TurnRow,
)
from ledgerstone.records.sessions import Cause, Status
from ledgerstone.rules.chain import GENESIS
from ledgerstone.rules.rows import HeadRow


class SessionWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A session's wide row; its tenant and id are the line's."""

    user: str | None = None
    app: str = ""
    title: str | None = None
    model: str | None = None
    cwd: str | None = None
    status: Status = "unknown"
    metadata: Json = UNSET
    metadata64: Blob = UNSET
    parent: str | None = None
    cause: Cause | None = None
    created_us: int = 0

    @classmethod
    def of(cls, row: SessionRow) -> SessionWire:
        metadata, metadata64 = split(row.metadata)
        return cls(
            user=row.user,
            app=row.app,
            title=row.title,
            model=row.model,
            cwd=row.cwd,
            status=row.status,
            metadata=metadata,
            metadata64=metadata64,
            parent=row.parent,
            cause=row.cause,
            created_us=row.created_us,
        )

    def row(self, number: int) -> SessionRow:
        return SessionRow(
            number=number,
            user=self.user,
            app=self.app,
            title=self.title,
            model=self.model,
            cwd=self.cwd,
            status=self.status,
            metadata=required(self.metadata, self.metadata64),
            parent=self.parent,
            cause=self.cause,
            created_us=self.created_us,
        )


class HeadWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A head; the fields of `HeadRow`, of which those that say nothing are left out."""

    incarnation: int = 1
    deleted_us: int | None = None
    revision: int = 0
    ord: int = 0
    leaf: int = 0
    tip: int = 0
    tip_seq: int = 0
    messages: int = 0
    users: int = 0
    first_user: int = 0
    live: int = 0
    branched: int = 0
    named: int = 0
    amended: int = 0
    fence: int = 0
    owner: str | None = None
    token: str | None = None
    claimed_us: int = 0
    expires_us: int = 0
    updated_us: int = 0
    link: bytes = GENESIS
    active_run: str | None = None
    open_run: str | None = None
    latest_run: str | None = None
    ledger: Json = UNSET
    ledger64: Blob = UNSET
    checkpoint: str | None = None
    runs: int = 0
    enqueued: int = 0

    @classmethod
    def of(cls, row: HeadRow) -> HeadWire:
        ledger, ledger64 = split(row.ledger)
        fields = {name: getattr(row, name) for name in PLAIN_HEAD}
        return cls(**fields, ledger=ledger, ledger64=ledger64)

    def row(self, number: int) -> HeadRow:
        fields: dict[str, Any] = {name: getattr(self, name) for name in PLAIN_HEAD}
        return HeadRow(number, **fields, ledger=joined(self.ledger, self.ledger64))


PLAIN_HEAD = tuple(
    name for name in HeadWire.__struct_fields__ if not name.startswith("ledger")
)  # The one field that is JSON is told apart.


class NodeWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A node; `body` last, since it is the long one."""

    ord: int
    id: str
    parent: int = 0
    seq: int = 0
    role: int | None = None
    kind: str = ""
    label: str = ""
    run_id: str | None = None
    meta: Json = UNSET
    meta64: Blob = UNSET
    format: str | None = None
    refs: str = ""
    created_us: int = 0
    deleted_us: int | None = None
    deleted_rev: int | None = None
    commitment: bytes | None = None
    salt: bytes | None = None
    body: Json = UNSET
    body64: Blob = UNSET

    @classmethod
    def of(cls, row: NodeRow) -> NodeWire:
        meta, meta64 = split(row.meta)
        body, body64 = split(row.body)
        return cls(
            ord=row.ord,
            id=row.id,
            parent=row.parent,
            seq=row.seq,
            role=row.role,
            kind=row.kind,
            label=row.label,
            run_id=row.run_id,
            meta=meta,
            meta64=meta64,
            format=row.format,
            refs=row.refs,
            created_us=row.created_us,
            deleted_us=row.deleted_us,
            deleted_rev=row.deleted_rev,
            commitment=row.commitment,
            salt=row.salt,
            body=body,
            body64=body64,
        )

    def row(self) -> NodeRow:
        return NodeRow(
            ord=self.ord,
            id=self.id,
            parent=self.parent,
            seq=self.seq,
            role=self.role,
            kind=self.kind,
            label=self.label,
            run_id=self.run_id,
            meta=joined(self.meta, self.meta64),
            format=self.format,
            refs=self.refs,
            body=joined(self.body, self.body64),
            salt=self.salt,
            created_us=self.created_us,
            deleted_us=self.deleted_us,
            deleted_rev=self.deleted_rev,
            commitment=self.commitment,
        )


class TurnWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One commit."""

    revision: int
    id: str
    kind: str
    hash: bytes
    created_us: int
    leaf: int = 0
    first_ord: int = 0
    count: int = 0
    usage: Json = UNSET
    usage64: Blob = UNSET
    effects: Json = UNSET
    effects64: Blob = UNSET
    link: bytes
    pos: int = 0
    usage_digest: bytes | None = None

    @classmethod
    def of(cls, row: TurnRow) -> TurnWire:
        usage, usage64 = split(row.usage)
        effects, effects64 = split(row.effects)
        return cls(
            revision=row.revision,
            id=row.id,
            kind=row.kind,
            hash=row.hash,
            created_us=row.created_us,
            leaf=row.leaf,
            first_ord=row.first_ord,
            count=row.count,
            usage=usage,
            usage64=usage64,
            effects=effects,
            effects64=effects64,
            link=row.link,
            pos=row.pos,
            usage_digest=row.usage_digest,
        )

    def row(self) -> TurnRow:
        return TurnRow(
            revision=self.revision,
            id=self.id,
            kind=self.kind,
            hash=self.hash,
            created_us=self.created_us,
            leaf=self.leaf,
            first_ord=self.first_ord,
            count=self.count,
            usage=joined(self.usage, self.usage64),
            effects=joined(self.effects, self.effects64),
            link=self.link,
            pos=self.pos,
            usage_digest=self.usage_digest,
        )


class NoteWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A note, with the node and the key it stands under."""

    node: str
    key: str
    format: str | None = None
    refs: str = ""
    created_us: int = 0
    body: Json = UNSET
    body64: Blob = UNSET

    @classmethod
    def of(cls, node: str, key: str, row: NoteRow) -> NoteWire:
        body, body64 = split(row.body)
        return cls(
            node=node,
            key=key,
            format=row.format,
            refs=row.refs,
            created_us=row.created_us,
            body=body,
            body64=body64,
        )

    def row(self) -> NoteRow:
        return NoteRow(required(self.body, self.body64), self.format, self.refs, self.created_us)


class AmendmentWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a message."""

    ord: int
    version: int
    revision: int
    created_us: int = 0
    commitment: bytes
    salt: bytes | None = None
    patch: Json = UNSET
    patch64: Blob = UNSET

    @classmethod
    def of(cls, ord: int, version: int, row: AmendmentRow) -> AmendmentWire:
        patch, patch64 = split(row.patch)
        return cls(
            ord=ord,
            version=version,
            revision=row.revision,
            created_us=row.created_us,
            commitment=row.commitment,
            salt=row.salt,
            patch=patch,
            patch64=patch64,
        )

    def row(self) -> AmendmentRow:
        return AmendmentRow(
            patch=joined(self.patch, self.patch64),
            salt=self.salt,
            revision=self.revision,
            commitment=self.commitment,
            created_us=self.created_us,
        )


class BytesWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A value under its digest, a document under its name, a run under its id."""

    id: str
    data: Json = UNSET
    data64: Blob = UNSET

    @classmethod
    def of(cls, id: str, data: bytes) -> BytesWire:
        embedded, blob = split(data)
        return cls(id=id, data=embedded, data64=blob)

    def content(self) -> bytes:
        return required(self.data, self.data64)
