"""Work: what a session has still to do."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import msgspec

from ledgerstone.records.leases import Held, Lease

Delivery = Literal["earliest_safe_boundary", "after_current_turn_commit"]
DELIVERIES: tuple[Delivery, ...] = get_args(Delivery)
Slot = Literal["join", "exclusive"]
SLOTS: tuple[Slot, ...] = get_args(Slot)
Boundary = Literal["active_turn_checkpoint", "idle"]
BOUNDARIES: tuple[Boundary, ...] = get_args(Boundary)
Order = Literal["arrival", "priority"]
ORDERS: tuple[Order, ...] = get_args(Order)
OnDuplicate = Literal["answer", "refuse"]
ON_DUPLICATE: tuple[OnDuplicate, ...] = get_args(OnDuplicate)

EndState = Literal["done", "cancelled", "dead", "superseded"]
END_STATES: tuple[EndState, ...] = get_args(EndState)

NEVER = "never"
PAYLOAD = "payload"
GROUP = "group:"
"""Merge keys: `never`, `payload` (with others of the kind), or `group:` and a name."""

QUEUE_DEFAULT = "default"
PRIORITY_DEFAULT = 128
PRIORITY_MAX = 255
ATTEMPTS_DEFAULT = 5


class Item(NamedTuple):
    """One payload of a batch and the id it keeps."""

    id: str
    payload: Any


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Payloads enqueued together; they are claimed and completed together.

    Lower priorities come first. `attempts` counts claims that were not handed back; with
    `max_attempts` of them behind it a batch goes to the dead letters. None: never.
    `waiting_for`: the execution whose outcome must be decided before anybody gets the batch.
    `superseded`: why nobody gets it any more once the claim on it is over.
    """

    session: str
    id: str
    enqueue_seq: int
    payloads: list[Any]
    source_key: str | None = None
    queue: str = QUEUE_DEFAULT
    delivery: Delivery = "after_current_turn_commit"
    slot: Slot = "exclusive"
    merge: str = NEVER
    priority: int = PRIORITY_DEFAULT
    available_us: int = 0
    attempts: int = 0
    max_attempts: int | None = ATTEMPTS_DEFAULT
    backoff_us: int = 0
    last_error: str | None = None
    claim: str | None = None
    claim_fence: int = 0
    claim_expires_us: int = 0
    enqueued_us: int = 0
    waiting_for: str | None = None
    superseded: str | None = None

    @property
    def items(self) -> list[Item]:
        """The payloads with their ids, in order."""
        return [Item(f"{self.id}/{n}", one) for n, one in enumerate(self.payloads)]

    def __repr__(self) -> str:
        return f"<Batch {self.id} of {self.session} with {len(self.payloads)} payloads>"


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Ownership of batches, pinned to the fence it was made under."""

    session: str
    id: str
    owner: str
    token: str
    fence: int
    claimed_us: int
    expires_us: int
    batches: list[Batch]

    @property
    def payloads(self) -> list[Any]:
        """Everything there is to do, in order."""
        return [payload for batch in self.batches for payload in batch.payloads]

    def __repr__(self) -> str:
        return f"<Claim {self.id} of {self.session} with {len(self.batches)} batches>"


class Taken(NamedTuple):
    """A session that had work and no owner: its lease and the claim, taken together."""

    lease: Lease
    claim: Claim


class Holding(NamedTuple):
    """The same while a block works on it."""

    lease: Held
    claim: Claim


class _OfBatch(msgspec.Struct, frozen=True, kw_only=True):
    batch: Batch

    @property
    def id(self) -> str:
        return self.batch.id

    @property
    def session(self) -> str:
        return self.batch.session


class DeadBatch(_OfBatch, frozen=True, kw_only=True):
    """A batch that nobody will get any more unless it is replayed, and why."""

    reason: str
    dead_us: int


class EndedBatch(_OfBatch, frozen=True, kw_only=True):
    """A batch that is not queued any more, and what became of it."""

    state: EndState
    reason: str
    ended_us: int


class WorkCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many batches ended in each state and are still recorded.

    `epoch`: how often the queue was interrupted.
    """

    done: int = 0
    cancelled: int = 0
    dead: int = 0
    superseded: int = 0
    epoch: int = 0


class Interrupted(msgspec.Struct, frozen=True, kw_only=True):
    """What an interruption found: how many batches it superseded, and those in work."""

    session: str
    epoch: int
    superseded: int
    running: list[Batch]


StuckReason = Literal[
    "deleted", "leased", "claimed", "parked", "delayed", "waiting_for_ticket",
    "unresolved_execution", "dead_letters", "ready",
]  # fmt: skip


class Stuck(msgspec.Struct, frozen=True, kw_only=True):
    """Why a session with work does not move. `until_us`: when that ends by itself, if it does."""

    session: str
    reason: StuckReason
    detail: str
    since_us: int | None = None
    until_us: int | None = None
    ids: list[str] = []
