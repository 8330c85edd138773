"""The per-session queue, as far as a commit settles it."""

from __future__ import annotations

from ledgerstone.commands import FREE, Command, Guard, Query
from ledgerstone.records.work import Batch, Claim


class EnqueueWork(Command[Batch], frozen=True, kw_only=True):
    """Durable before it answers; the same source key while queued answers the existing batch."""

    session: str
    batch: str
    payloads: tuple[bytes, ...]
    source_key: str | None = None


class ClaimWork(Command[Claim | None], frozen=True, kw_only=True):
    """The oldest unclaimed batch, under a live lease; None when there is none."""

    session: str
    claim: str
    guard: Guard = FREE


class ListWork(Query[list[Batch]], frozen=True, kw_only=True):
    """All queued batches of a session in order, claimed ones included."""

    session: str
