"""The queue of each session, the sessions that have work, and dead letters."""

from __future__ import annotations

import msgspec

from ledgerstone.rules.work import PARKED_FENCE
from ledgerstone.rules.work import WorkRow as Batch
from ledgerstone.tables.table import Table


class WorkRow(Batch, frozen=True):
    """A batch in the queue of the session `number`.

    `later`: it was not available yet when somebody last looked. One that waits for a decision about
    an execution is claimed by that (rules.work.PARKED).
    """

    number: int = 0
    later: int = 0


class ReadyRow(msgspec.Struct, frozen=True, gc=False):
    """When a worker may take a session for what it has in one queue."""

    number: int
    queue: str
    tenant: str
    priority: int
    due_us: int


class DeadWorkRow(msgspec.Struct, frozen=True, gc=False):
    """A batch that had all its attempts."""

    tenant: str
    id: str
    number: int
    dead_us: int
    reason: str
    body: bytes


WORK = Table(
    "work",
    WorkRow,
    ("number", "seq"),
    owner="number",
    sealed=tuple(name for name in WorkRow.__struct_fields__ if name not in ("number", "seq")),
)
WORK_IN_ORDER = WORK.index("line", "number", "queue", "later", "priority", "seq")
WORK_BY_ID = WORK.index("id", "number", "id", unique=True)
WORK_BY_SOURCE = WORK.index("source", "number", "source_key", unique=True, present="source_key")
WORK_BY_CLAIM = WORK.index("claim", "number", "claim", "priority", "seq", present="claim")
WORK_LATER = WORK.index(
    "later",
    "number",
    "queue",
    "available_us",
    where="later = 1",
    holds=lambda row: row.later == 1,
)
WORK_PARKED = WORK.index(
    "parked",
    "number",
    "priority",
    "seq",
    where=f"claim_fence = {PARKED_FENCE}",
    holds=lambda row: row.claim_fence == PARKED_FENCE,
)

READY = Table("ready", ReadyRow, ("number", "queue"), owner="number")
READY_DUE = READY.index("due", "tenant", "queue", "priority", "due_us", "number")

DEAD_WORK = Table(
    "dead_work",
    DeadWorkRow,
    ("tenant", "id", "number"),
    owner="number",
    sealed=("dead_us", "reason", "body"),
)
DEAD_WORK_BY_TIME = DEAD_WORK.index("time", "tenant", "dead_us", "id")
DEAD_WORK_BY_SESSION = DEAD_WORK.index("session", "number", "dead_us", "id")
