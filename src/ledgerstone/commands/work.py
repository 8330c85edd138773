"""The queue of each session, and finding a session that has something to do."""

from __future__ import annotations

import msgspec

from ledgerstone.commands import (
    FREE,
    Command,
    Guard,
    PageQuery,
    Query,
    SessionCommand,
    SessionQuery,
)
from ledgerstone.records.sessions import Page
from ledgerstone.records.work import (
    ATTEMPTS_DEFAULT,
    NEVER,
    PRIORITY_DEFAULT,
    QUEUE_DEFAULT,
    Batch,
    Boundary,
    Claim,
    DeadBatch,
    Delivery,
    EndedBatch,
    EndState,
    Interrupted,
    OnDuplicate,
    Order,
    Slot,
    Stuck,
    Taken,
    WorkCounts,
)


class NewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch to enqueue; `payloads` is the canonical JSON of the list of them.

    It is available `delay_us` after it was enqueued, or at `available_us`, whichever is later.
    """

    session: str
    id: str
    payloads: bytes
    source_key: str | None = None
    queue: str = QUEUE_DEFAULT
    delivery: Delivery = "after_current_turn_commit"
    slot: Slot = "exclusive"
    merge: str = NEVER
    priority: int = PRIORITY_DEFAULT
    available_us: int = 0
    delay_us: int = 0
    max_attempts: int | None = ATTEMPTS_DEFAULT
    backoff_us: int = 0


class Completion(msgspec.Struct, frozen=True, gc=False):
    """A claim that a commit completes; its token proves that the caller made it."""

    claim: str
    token: str


class EnqueueWork(Command[Batch], frozen=True, kw_only=True):
    """Durable before it answers; the same source key while queued answers the existing batch.

    `on_duplicate` "refuse": AlreadyExists for it.
    """

    batch: NewBatch
    on_duplicate: OnDuplicate = "answer"


class ClaimWork(SessionCommand[Claim | None], frozen=True, kw_only=True):
    """The next ready group of batches, under a live lease; None when there is none.

    `ids`: exactly these batches, if all are ready and no exclusive one stands before them.
    `queue` None: of any queue.
    The same claim id again under the same fence answers what it owns already.
    """

    claim: str
    owner: str
    token: str
    ttl_us: int
    boundary: Boundary = "idle"
    max_batches: int = 1
    ids: tuple[str, ...] | None = None
    queue: str | None = None
    guard: Guard = FREE


class TakeWork(Command[Taken | None], frozen=True, kw_only=True):
    """A session with ready work and no live lease: a fresh lease and a claim, in one step.

    The session that has been ready for longest comes first, among those with the most urgent work.
    """

    queue: str
    owner: str
    lease_token: str
    claim: str
    claim_token: str
    ttl_us: int
    max_batches: int = 1


class RenewClaim(SessionCommand[Claim], frozen=True, kw_only=True):
    """A later end for a claim that still owns its batches; ClaimLost otherwise.

    WorkInterrupted when the queue was interrupted since.
    """

    claim: str
    token: str
    ttl_us: int


class AbandonClaim(SessionCommand[bool], frozen=True, kw_only=True):
    """Hand batches back, in place and uncounted; False when they were not the claim's any more.

    `delay_us`: nobody gets them before that is over.
    """

    claim: str
    token: str
    delay_us: int = 0


class FailClaim(SessionCommand[list[Batch]], frozen=True, kw_only=True):
    """Batches come back after a pause that doubles, or are buried when they had their attempts.

    `delay_us` None: as the batch says. `bury`: at once. Answers what is queued again. ClaimLost.
    """

    claim: str
    token: str
    error: str
    delay_us: int | None = None
    bury: bool = False


class ParkClaim(SessionCommand[list[Batch]], frozen=True, kw_only=True):
    """Batches wait, uncounted, until the outcome of an execution of their session is decided.

    What stands behind them in the session waits too. Answers them with `waiting_for`; without it,
    and free again, when the outcome is known already. ClaimLost, ExecutionNotFound,
    SessionBindingMismatch.
    """

    claim: str
    token: str
    execution: str


class CancelWork(SessionCommand[Batch | None], frozen=True, kw_only=True):
    """Remove a batch that nobody works on; None when it is missing or live-claimed."""

    batch: str
    reason: str = "cancelled"


class InterruptWork(SessionCommand[Interrupted], frozen=True, kw_only=True):
    """Everything that nobody works on is superseded, and the epoch of the queue rises.

    What is being worked on may still be completed, but it is not renewed, and superseded when it
    would come back.
    """

    reason: str = "interrupted"


class ReplayWork(Command[Batch], frozen=True, kw_only=True):
    """A dead batch goes to the end of its queue again, its attempts forgotten.

    BatchNotFound; AlreadyExists when its id was enqueued again meanwhile.
    """

    batch: str


class DropDead(Command[bool], frozen=True, kw_only=True):
    """Forget a dead batch."""

    batch: str


class PruneWork(SessionCommand[int], frozen=True, kw_only=True):
    """Forget at most `limit` batches of a session that ended before a moment; how many."""

    before_us: int
    limit: int


class ListWork(SessionQuery[list[Batch]], frozen=True, kw_only=True):
    """Queued batches of a session; `pending`: without the live-claimed.

    `order`: "arrival" is by enqueue_seq, "priority" the order in which they are claimed.
    """

    pending: bool = False
    order: Order = "arrival"


class PeekWork(Query[int | None], frozen=True, kw_only=True):
    """When the next session of a queue is due, as far as is known; None when none has work.

    A moment in the past means: TakeWork may find something now.
    """

    queue: str


class ListDead(PageQuery[Page[DeadBatch]], frozen=True, kw_only=True):
    """Dead letters, oldest first; `after` is the key of the last item of the page before."""

    session: str | None = None
    after: tuple[int, str] | None = None


class ListEnded(PageQuery[Page[EndedBatch]], frozen=True, kw_only=True):
    """Batches that ended in a state, oldest first; `after` is the key of the last item of the page
    before.
    """

    state: EndState
    session: str | None = None
    after: tuple[int, str, int] | None = None


class ListPrunable(Query[list[str]], frozen=True, kw_only=True):
    """Sessions with batches that ended before a moment; of each state `limit` batches are seen."""

    before_us: int
    limit: int


class CountWork(Query[WorkCounts], frozen=True, kw_only=True):
    """Ended batches by state, of one session or of all: one row per session is read."""

    session: str | None = None


class ExplainWork(Query[list[Stuck]], frozen=True, kw_only=True):
    """Why sessions with work do not move: one session's reasons, or those of all, oldest first."""

    session: str | None = None
    limit: int = 50
