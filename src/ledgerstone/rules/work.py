"""The rules of the queue: what may be claimed, in which order, and when a session is due."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone.codec import encode_json, encode_struct
from ledgerstone.commands.leases import TakeLease
from ledgerstone.commands.work import AbandonClaim, ClaimWork, FailClaim, NewBatch, TakeWork
from ledgerstone.errors import Corrupt
from ledgerstone.records.leases import Lease
from ledgerstone.records.work import (
    DELIVERIES,
    END_STATES,
    GROUP,
    NEVER,
    SLOTS,
    Batch,
    Boundary,
    Claim,
    DeadBatch,
    Delivery,
    EndedBatch,
    Slot,
)
from ledgerstone.rules import leases
from ledgerstone.rules.bodies import read_json, read_struct
from ledgerstone.rules.guard import is_live
from ledgerstone.rules.rows import HeadRow, record_of

TAKE_ROUNDS = 64
"""How many sessions one TakeWork looks at before it answers that there is nothing."""
PEEK_ROWS = TAKE_ROUNDS
"""How many sessions of a priority PeekWork looks at. When all of them are held or deleted, the next
TakeWork has to put them where they belong, so the answer is a moment that leads to one."""
QUEUE_ROWS_MAX = 1 << 31
"""How many batches are looked through for those that a claim names: the whole queue."""
ERROR_CHARS_MAX = 1000
BACKOFF_US = 1_000_000
BACKOFF_US_MAX = 3_600_000_000
WAKE_GROUP = GROUP + "wake"
PARKED = "execution:"
PARKED_FENCE = (1 << 63) - 1
PARKED_US = 253_402_300_799_999_999
"""A batch that waits for a decision is claimed by the execution it waits for: `claim` is PARKED and
its id, the fence is above all others, and it is available at the end of the calendar."""

_batch = msgspec.json.Decoder(Batch)


class WorkRow(msgspec.Struct, frozen=True):
    """One queued batch, and who claimed it under which fence."""

    seq: int
    queue: str
    priority: int
    id: str
    source_key: str | None
    delivery: Delivery
    slot: Slot
    merge: str
    available_us: int
    max_attempts: int | None
    backoff_us: int
    payloads: bytes
    enqueued_us: int
    attempts: int = 0
    last_error: str | None = None
    claim: str | None = None
    claim_fence: int = 0
    claim_token: str | None = None
    claim_owner: str | None = None
    claimed_us: int = 0
    claim_expires_us: int = 0
    superseded: str | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands among those that can be claimed."""
        return self.priority, self.seq

    @property
    def is_spent(self) -> bool:
        """Whether it had all its attempts."""
        return self.max_attempts is not None and self.attempts >= self.max_attempts

    @property
    def is_over(self) -> bool:
        """Whether nobody may claim it any more."""
        return self.superseded is not None or self.is_spent

    @property
    def waiting_for(self) -> str | None:
        """The execution whose outcome must be decided first."""
        return None if self.claim_fence != PARKED_FENCE else (self.claim or "")[len(PARKED) :]


def new_row(batch: NewBatch, seq: int, now_us: int) -> WorkRow:
    """A batch as it is queued."""
    delayed_us = now_us + batch.delay_us if batch.delay_us else 0
    available_us = max(batch.available_us, delayed_us)
    return record_of(WorkRow, batch, seq=seq, available_us=available_us, enqueued_us=now_us)


def batch_of(session: str, row: WorkRow) -> Batch:
    """The batch as callers see it; Corrupt when its bytes or its words say nothing."""
    if row.delivery not in DELIVERIES or row.slot not in SLOTS:
        column = "slot" if row.delivery in DELIVERIES else "delivery"
        raise Corrupt("work", str(row.seq), column, f"unknown value {getattr(row, column)!r}")
    payloads = read_json(row.payloads, "work", str(row.seq), "payloads")
    waiting_for = row.waiting_for
    if waiting_for is not None:
        row = replace(freed(row), available_us=0)
    return Batch(
        session=session,
        id=row.id,
        enqueue_seq=row.seq,
        payloads=payloads,
        source_key=row.source_key,
        queue=row.queue,
        delivery=row.delivery,
        slot=row.slot,
        merge=row.merge,
        priority=row.priority,
        available_us=row.available_us,
        attempts=row.attempts,
        max_attempts=row.max_attempts,
        backoff_us=row.backoff_us,
        last_error=row.last_error,
        claim=row.claim,
        claim_fence=row.claim_fence,
        claim_expires_us=row.claim_expires_us,
        enqueued_us=row.enqueued_us,
        waiting_for=waiting_for,
        superseded=row.superseded,
    )


def wake(kind: str, session: str, batch: str, queue: str, **what: Any) -> NewBatch:
    """The batch that tells a session that what it waited for has happened."""
    return NewBatch(
        session=session,
        id=batch,
        payloads=encode_json([{"wake": kind, **what}], "wake"),
        source_key=f"wake:{kind}:{batch}",
        queue=queue,
        slot="join",
        merge=WAKE_GROUP,
    )


# --- claims


def is_claimable(row: WorkRow, fence: int) -> bool:
    """Nobody's, or only an older generation's (contract D14)."""
    return row.claim is None or row.claim_fence < fence


def has_live_claim(row: WorkRow, head: HeadRow, now_us: int) -> bool:
    """Whether somebody may be at work on it."""
    if row.claim is None or row.claim_fence != head.fence:
        return False
    return is_live(head, now_us) or row.claim_expires_us > now_us


class Wanted(msgspec.Struct, frozen=True):
    """Which group is asked for. `of` is tenant and session, `queue` None means any."""

    of: tuple[str, str]
    size: int
    queue: str | None
    boundary: Boundary
    ids: tuple[str, ...] | None

    @property
    def most(self) -> int:
        """How many batches the group has at most."""
        return self.size if self.ids is None else len(self.ids)

    def fits(self, group: list[WorkRow]) -> bool:
        """Whether the group is the one that was asked for."""
        named = self.ids is None or sorted(self.ids) == sorted(row.id for row in group)
        return bool(group) and named


def wanted_by(command: ClaimWork) -> Wanted:
    """What a claim asks for; of size 0 when it can get nothing."""
    size = command.max_batches
    if size and command.ids is not None:
        size = QUEUE_ROWS_MAX if command.ids else 0
    of = (command.tenant, command.session)
    return Wanted(of, size, command.queue, command.boundary, command.ids)


class Choice(msgspec.Struct):
    """What a look at the candidates gave: the group, what is over, and whether that is all."""

    group: list[WorkRow]
    spent: list[WorkRow]
    ended: bool = False


def choose(candidates: Iterable[WorkRow], wanted: Wanted) -> Choice:
    """The next group, from candidates in order (contract 3.4); spent ones do not count.

    Named batches may be claimed before others of slot "join", whatever they merge with.
    """
    choice = Choice([], [])
    group, ids = choice.group, wanted.ids
    for row in candidates:
        if row.is_over:
            choice.spent.append(row)
            continue
        if ids is not None and row.id not in ids and row.slot == "join":
            continue
        if not _belongs(row, group, wanted):
            choice.ended = True
            break
        group.append(row)
        if len(group) == wanted.most or row.slot == "exclusive":
            choice.ended = True
            break
    return choice


def _belongs(row: WorkRow, group: list[WorkRow], wanted: Wanted) -> bool:
    """Whether the next candidate begins the group, or joins it."""
    if wanted.ids is None:
        if not group:
            return _admits(wanted.boundary, row)
        first = group[0]
        kinds = (row.slot, row.delivery, row.merge)
        return row.merge != NEVER and kinds == ("join", first.delivery, first.merge)
    is_alone = not group or row.slot == "join"
    return row.id in wanted.ids and is_alone and _admits(wanted.boundary, row)


def _admits(boundary: Boundary, row: WorkRow) -> bool:
    return boundary == "idle" or row.delivery == "earliest_safe_boundary"


def claiming_of(command: TakeWork, session: str) -> ClaimWork:
    """The claim that taking a session makes."""
    return ClaimWork(
        tenant=command.tenant,
        session=session,
        claim=command.claim,
        owner=command.owner,
        token=command.claim_token,
        ttl_us=command.ttl_us,
        max_batches=command.max_batches,
        queue=command.queue,
    )


def grant(head: HeadRow, command: TakeWork, session: str, now_us: int) -> Lease:
    """A fresh lease in the row of a session that nobody holds."""
    wanted = TakeLease(
        tenant=command.tenant,
        session=session,
        owner=command.owner,
        token=command.lease_token,
        ttl_us=command.ttl_us,
    )
    leases.take(head, wanted, now_us)
    lease = head.lease(session)
    assert lease is not None
    return lease


def new_claim(command: ClaimWork, fence: int, now_us: int) -> Claim:
    """A claim without its batches."""
    return Claim(
        session=command.session,
        id=command.claim,
        owner=command.owner,
        token=command.token,
        fence=fence,
        claimed_us=now_us,
        expires_us=now_us + command.ttl_us,
        batches=[],
    )


def claimed(row: WorkRow, claim: Claim) -> WorkRow:
    """The batch as the claim owns it; `claim` has no batches yet."""
    return replace(
        row,
        attempts=row.attempts + 1,
        claim=claim.id,
        claim_fence=claim.fence,
        claim_token=claim.token,
        claim_owner=claim.owner,
        claimed_us=claim.claimed_us,
        claim_expires_us=claim.expires_us,
    )


def claim_of(session: str, rows: list[WorkRow]) -> Claim:
    """The claim that owns these batches."""
    first = rows[0]
    return Claim(
        session=session,
        id=first.claim or "",
        owner=first.claim_owner or "",
        token=first.claim_token or "",
        fence=first.claim_fence,
        claimed_us=first.claimed_us,
        expires_us=first.claim_expires_us,
        batches=[batch_of(session, row) for row in rows],
    )


def owns(rows: list[WorkRow], token: str, head: HeadRow) -> bool:
    """Whether a claim still has all its batches: ownership is tested, not the clock."""
    return bool(rows) and all(
        row.claim_token == token and row.claim_fence == head.fence for row in rows
    )


def freed(row: WorkRow) -> WorkRow:
    """The batch without its claim."""
    return replace(
        row,
        claim=None,
        claim_fence=0,
        claim_token=None,
        claim_owner=None,
        claimed_us=0,
        claim_expires_us=0,
    )


def abandoned(row: WorkRow, command: AbandonClaim, now_us: int) -> WorkRow:
    """The batch after it was handed back: free again, and the attempt did not count."""
    available_us = now_us + command.delay_us if command.delay_us else row.available_us
    return replace(freed(row), attempts=row.attempts - 1, available_us=available_us)


def failed(row: WorkRow, command: FailClaim, now_us: int) -> WorkRow:
    """The batch after its attempt failed: free again, but only after a pause."""
    pause_us = backoff_us(row) if command.delay_us is None else command.delay_us
    error = command.error[:ERROR_CHARS_MAX]
    return replace(freed(row), last_error=error, available_us=now_us + pause_us)


def backoff_us(row: WorkRow) -> int:
    """The pause after an attempt: it doubles with each, up to an hour."""
    doubled = min(row.attempts - 1, 32)
    return min((row.backoff_us or BACKOFF_US) << max(doubled, 0), BACKOFF_US_MAX)


# --- dead letters


def spent_reason(row: WorkRow) -> str:
    """Why a batch that had all its attempts is buried when it comes up again."""
    if row.last_error is not None:
        return row.last_error
    return f"given up after {row.attempts} attempts: no worker came back"


def dead_body(session: str, row: WorkRow) -> bytes:
    """An ended batch as it is kept."""
    return encode_struct(batch_of(session, freed(row)), "batch")


def ended_batch(id: str, body: bytes, state: str, reason: str, ended_us: int) -> EndedBatch:
    """An ended batch as it was kept; Corrupt when it does not decode."""
    batch = read_struct(_batch, body, "ended_work", id)
    if state not in END_STATES:
        raise Corrupt("ended_work", id, "state", f"unknown value {state!r}")
    return EndedBatch(batch=batch, state=state, reason=reason, ended_us=ended_us)


def dead_batch(id: str, body: bytes, reason: str, dead_us: int) -> DeadBatch:
    """The same of a dead letter."""
    batch = ended_batch(id, body, "dead", reason, dead_us).batch
    return DeadBatch(batch=batch, reason=reason, dead_us=dead_us)


def revived(batch: Batch, *, keyed: bool) -> NewBatch:
    """A dead batch as it is enqueued again; `keyed` False: another has its source key by now."""
    return record_of(
        NewBatch,
        batch,
        payloads=encode_json(batch.payloads, "payloads"),
        source_key=batch.source_key if keyed else None,
        available_us=0,
    )


# --- when a session is due


def due_us(available_us: int, head: HeadRow, now_us: int) -> int:
    """When a worker may take a session whose first batch is available then.

    Never before now: so a session that was served goes to the end of the line.
    """
    due = max(available_us, now_us)
    return later_us(due, head) if is_live(head, now_us) else due


def later_us(due_us: int, head: HeadRow) -> int:
    """A stored moment, put off to the end of the lease that was taken or renewed since."""
    return due_us if head.owner is None else max(due_us, head.expires_us)


def parking_claim(execution: str) -> str:
    """What stands in the place of a claim while a batch waits for an execution."""
    return PARKED + execution


def parked(row: WorkRow, execution: str, now_us: int) -> WorkRow:
    """The batch while it waits for a decision about an execution; the attempt did not count."""
    return replace(
        freed(row),
        attempts=row.attempts - 1,
        available_us=PARKED_US,
        claim=parking_claim(execution),
        claim_fence=PARKED_FENCE,
        claimed_us=now_us,
    )


def woken(row: WorkRow, now_us: int) -> WorkRow:
    """The batch after the decision: free again, in its old place."""
    return replace(freed(row), available_us=now_us)


def is_behind(row: WorkRow, parked: Iterable[WorkRow]) -> bool:
    """Whether a batch stands behind one that waits for a decision, and so waits with it."""
    return any(one.place < row.place for one in parked)
