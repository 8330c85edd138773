"""Rows of the queue as they stand in a line of a journal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import UNSET

from ledgerstone.backends.file_wire import Blob, Json, Wire, required, split
from ledgerstone.commands.memories import NewMemory
from ledgerstone.commands.work import NewBatch
from ledgerstone.model.rows import DeadRow, OutboxRow, ReadyRow
from ledgerstone.model.state import State
from ledgerstone.model.tables import ABSENT
from ledgerstone.model.work_rows import place_row
from ledgerstone.records.work import (
    ATTEMPTS_DEFAULT,
    NEVER,
    PRIORITY_DEFAULT,
    QUEUE_DEFAULT,
    Delivery,
    Slot,
)
from ledgerstone.rules.work import WorkRow


class WorkWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """One queued batch; `payloads` last, since it is the long one."""

    seq: int
    id: str
    queue: str = QUEUE_DEFAULT
    priority: int = PRIORITY_DEFAULT
    source_key: str | None = None
    delivery: Delivery = "after_current_turn_commit"
    slot: Slot = "exclusive"
    merge: str = NEVER
    available_us: int = 0
    max_attempts: int | None = ATTEMPTS_DEFAULT
    backoff_us: int = 0
    enqueued_us: int = 0
    attempts: int = 0
    last_error: str | None = None
    claim: str | None = None
    claim_fence: int = 0
    claim_token: str | None = None
    claim_owner: str | None = None
    claimed_us: int = 0
    claim_expires_us: int = 0
    payloads: Json = UNSET
    payloads64: Blob = UNSET

    @classmethod
    def of(cls, row: WorkRow) -> WorkWire:
        payloads, payloads64 = split(row.payloads)
        fields: dict[str, Any] = {name: getattr(row, name) for name in _PLAIN}
        return cls(**fields, payloads=payloads, payloads64=payloads64)

    def row(self) -> WorkRow:
        fields: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN}
        return WorkRow(**fields, payloads=required(self.payloads, self.payloads64))


_PLAIN = tuple(name for name in WorkRow.__struct_fields__ if name != "payloads")


class ReadyWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The place in the line of one queue; its tenant is the line's."""

    queue: str
    priority: int = PRIORITY_DEFAULT
    due_us: int = 0

    @classmethod
    def of(cls, queue: str, row: ReadyRow) -> ReadyWire:
        return cls(queue=queue, priority=row.priority, due_us=row.due_us)

    def row(self, tenant: str) -> ReadyRow:
        return ReadyRow(tenant, self.priority, self.due_us)


class DeadWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A dead letter."""

    id: str
    dead_us: int
    reason: str = ""
    body: Json = UNSET
    body64: Blob = UNSET

    @classmethod
    def of(cls, id: str, row: DeadRow) -> DeadWire:
        body, body64 = split(row.body)
        return cls(id=id, dead_us=row.dead_us, reason=row.reason, body=body, body64=body64)

    def row(self) -> DeadRow:
        return DeadRow(self.dead_us, self.reason, required(self.body, self.body64))


class OutboxWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A batch or a memory on its way elsewhere; its bytes are base64 for that short time."""

    n: int
    at_us: int
    batch: NewBatch | None = None
    memory: NewMemory | None = None

    @classmethod
    def of(cls, n: int, row: OutboxRow) -> OutboxWire:
        return cls(n=n, at_us=row.at_us, batch=row.batch, memory=row.memory)

    def row(self) -> OutboxRow:
        return OutboxRow(self.at_us, self.batch, self.memory)


def put_work(
    state: State,
    of: tuple[str, int],
    work: Iterable[WorkWire],
    ready: Iterable[ReadyWire],
    dead: Iterable[DeadWire],
    outbox: Iterable[OutboxWire],
) -> None:
    """The queue of a session as it is now, and the tables that lead to it; `of`: tenant, number."""
    tenant, number = of
    for batch in work:
        place_row(state, number, batch.seq, batch.row())
    for place in ready:
        _place_ready(state, number, place.queue, place.row(tenant))
    for letter in dead:
        state.dead_work.place((number, letter.id), letter.row())
        state.dead_ids.place((tenant, letter.id, number), None)
    for sent in outbox:
        state.outbox.place((number, sent.n), sent.row())


def forget_work(state: State, of: tuple[str, int], table: str, key: Any) -> None:
    """A row is gone: so is what leads to it."""
    tenant, number = of
    if table == "work":
        place_row(state, number, key, ABSENT)
    elif table == "ready":
        _place_ready(state, number, key, ABSENT)
    elif table == "dead_work":
        state.dead_ids.place((tenant, key, number), ABSENT)


def _place_ready(state: State, number: int, queue: str, row: Any) -> None:
    old = state.ready.get((number, queue))
    if old is not None:
        old_key = (old.tenant, queue, old.priority, old.due_us, number)
        state.ready_due.place(old_key, ABSENT)
    state.ready.place((number, queue), row)
    if row is not ABSENT:
        state.ready_due.place((row.tenant, queue, row.priority, row.due_us, number), None)
