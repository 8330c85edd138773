"""The queue of each session, the sessions that have work, and what became of it."""

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


class EndedWorkRow(msgspec.Struct, frozen=True, gc=False):
    """A batch that is not queued any more: done, cancelled, dead or superseded."""

    number: int
    seq: int
    tenant: str
    id: str
    state: str
    ended_us: int
    reason: str
    body: bytes


class WorkSumsRow(msgspec.Struct, frozen=True, gc=False):
    """The ended batches of a session, counted, and how often its queue was interrupted."""

    number: int
    tenant: str
    epoch: int = 0
    done: int = 0
    cancelled: int = 0
    dead: int = 0
    superseded: int = 0


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

ENDED_WORK = Table(
    "ended_work",
    EndedWorkRow,
    ("number", "seq"),
    owner="number",
    sealed=("tenant", "id", "state", "ended_us", "reason", "body"),
)
ENDED_WORK_BY_TIME = ENDED_WORK.index("time", "tenant", "state", "ended_us", "id", "seq")
ENDED_WORK_BY_SESSION = ENDED_WORK.index("session", "number", "state", "ended_us", "id", "seq")
DEAD_WORK_BY_ID = ENDED_WORK.index(
    "dead", "tenant", "id", "number", where="state = 'dead'", holds=lambda row: row.state == "dead"
)

WORK_SUMS = Table(
    "work_sums",
    WorkSumsRow,
    ("number",),
    owner="number",
    sums=("epoch", "done", "cancelled", "dead", "superseded"),
)
WORK_SUMS_OF_TENANT = WORK_SUMS.index("tenant", "tenant", "number")
