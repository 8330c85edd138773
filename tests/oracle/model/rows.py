"""The rows of the model's tables. Ords are positions in commit order; 0 means none."""

from __future__ import annotations

import msgspec

from ledgerstone.commands.memories import NewMemory
from ledgerstone.commands.work import NewBatch
from ledgerstone.records.sessions import Cause, Status
from ledgerstone.rules.chain import commit_fields

DIGEST_CHARS = 64


def split_refs(refs: str) -> tuple[str, ...]:
    """The digests that a row keeps in one text."""
    return tuple(refs[at : at + DIGEST_CHARS] for at in range(0, len(refs), DIGEST_CHARS))


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The wide part of a session; what every commit moves is in its head row."""

    number: int
    user: str | None
    app: str
    title: str | None
    model: str | None
    cwd: str | None
    status: Status
    metadata: bytes
    parent: str | None
    cause: Cause | None
    created_us: int


class StubRow(msgspec.Struct, frozen=True):
    """What stays of a purged id."""

    incarnation: int
    fence: int
    link: str
    retired: bool


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node. A vacuumed one is a stub: no body, but the commitment of what it was."""

    ord: int
    id: str
    parent: int
    seq: int
    role: int | None
    kind: str
    label: str
    run_id: str | None
    meta: bytes | None
    format: str | None
    refs: str
    body: bytes | None
    salt: bytes | None
    created_us: int
    deleted_us: int | None = None
    deleted_rev: int | None = None
    commitment: bytes | None = None

    @property
    def live(self) -> bool:
        return self.deleted_us is None

    def visible_at(self, revision: int) -> bool:
        """Whether the node was live right after that commit."""
        return self.deleted_rev is None or self.deleted_rev > revision

    def committed(self) -> bytes:
        """What the chain knows of the node: kept in a stub, else made from its fields."""
        if self.body is None or self.salt is None:
            return self.commitment or b""
        return commit_fields(
            self.salt,
            self.role,
            self.kind,
            self.label,
            self.run_id,
            self.meta,
            self.format,
            self.refs,
            self.created_us,
            self.body,
        )


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """One commit. `pos` is its place among all commits of the store.

    `usage_digest` is what the chain knows of usage that was deleted.
    """

    revision: int
    id: str
    kind: str
    hash: bytes
    created_us: int
    leaf: int
    first_ord: int
    count: int
    usage: bytes | None
    effects: bytes | None
    link: bytes
    pos: int = 0
    usage_digest: bytes | None = None


class NoteRow(msgspec.Struct, frozen=True):
    """A note of a node that may not exist."""

    body: bytes
    format: str | None
    refs: str
    created_us: int


class AmendmentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a message: everything that differs from its body since it was written."""

    patch: bytes | None
    salt: bytes | None
    revision: int
    commitment: bytes
    created_us: int


class RunRow(msgspec.Struct, frozen=True):
    """A run as canonical bytes, and the session row it belongs to."""

    number: int
    session: str
    data: bytes


class ReadyRow(msgspec.Struct, frozen=True):
    """When a worker may take a session for what it has in one queue."""

    tenant: str
    priority: int
    due_us: int


class DeadRow(msgspec.Struct, frozen=True):
    """A buried batch as canonical bytes."""

    dead_us: int
    reason: str
    body: bytes


class OutboxRow(msgspec.Struct, frozen=True):
    """What a commit left elsewhere, on its way there, and when that was: a batch or a memory."""

    at_us: int
    batch: NewBatch | None = None
    memory: NewMemory | None = None


class CallSums(msgspec.Struct, frozen=True):
    """The tool calls of a session; `duration_ms` sums those with an outcome."""

    calls: int = 0
    succeeded: int = 0
    failed: int = 0
    duration_ms: int = 0


class Spent(msgspec.Struct, frozen=True):
    """What of a budget is used in the period that began at `since_us`."""

    since_us: int = 0
    nano: int = 0
    tokens: int = 0


class MemoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A remembered value as canonical bytes."""

    value: bytes
    ttl_us: int | None
    created_us: int
    updated_us: int
    expires_us: int | None
