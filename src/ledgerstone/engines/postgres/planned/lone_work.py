"""Work when nobody else waits: queueing, claiming and completing as one plain statement each.

The twin of planned/lone.py; why that is enough, says sql/queries/postgres_own/alone_work.sql. What
is unusual does not fit, and goes the way of groups.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ledgerstone.commands.work import ClaimWork
from ledgerstone.engines.postgres.drivers.port import Blobs
from ledgerstone.engines.postgres.planned.heads import Known
from ledgerstone.engines.postgres.planned.known_rows import IS_TIMED
from ledgerstone.engines.postgres.planned.plan import Plan
from ledgerstone.engines.postgres.planned.sections import (
    COMPLETED_CLAIMS,
    COUNTED_WORK,
    ENDED_BATCHES,
    MOVED_HEADS,
    MOVED_SESSIONS,
    NEW_TURNS,
    NEW_WORK,
    RAISED_LINES,
    SETTLED_LINES,
    values_of,
)
from ledgerstone.engines.postgres.transaction import statements

_QUEUEING = frozenset({MOVED_HEADS, NEW_WORK, RAISED_LINES})
_COMPLETING = frozenset(
    {MOVED_HEADS, NEW_TURNS, COMPLETED_CLAIMS, SETTLED_LINES, ENDED_BATCHES, COUNTED_WORK}
)
_WITH_RECENCY = _COMPLETING | {MOVED_SESSIONS}
_MOVED = ("fence", "owner", "token", "claimed_us", "expires_us", "revision", "updated_us", "link")
"""What of a head a turn moves that only completes a claim."""

_besides_queue = values_of(
    MOVED_HEADS, *(name for name in MOVED_HEADS.columns if name != "enqueued")
)
_besides_turn = values_of(
    MOVED_HEADS, *(name for name in MOVED_HEADS.columns if name not in _MOVED)
)
_batch = values_of(
    NEW_WORK,
    *("seq", "later", "priority", "available_us", "max_attempts", "backoff_us", "enqueued_us"),
    *("queue", "id", "source_key", "delivery", "slot", "merge", "payloads"),
)
_lease = values_of(MOVED_HEADS, "fence", "owner", "token", "claimed_us", "expires_us")
_turn = values_of(NEW_TURNS, "kind", "hash", "leaf", "first_ord", "usage", "effects")
_OPTIONAL = frozenset({"source_key", "queue", "recency", "is_safe"})

Call = tuple[str, tuple[Any, ...]]


def fits(plan: Plan | None) -> bool:
    """Whether it queues one batch and does nothing else, or completes one claim."""
    if plan is None or plan.error is not None:
        return False
    keys = plan.writes.keys()
    if keys != _QUEUEING and not (_COMPLETING <= keys <= _WITH_RECENCY and not plan.flags):
        return False
    many = [section for section, rows in plan.writes.items() if len(rows) != 1]
    return many in ([], [ENDED_BATCHES]) and not plan.flags & ~IS_TIMED


def call_of(plan: Plan, now_us: int | None) -> Call | None:
    """The statement that carries it out, and its arguments; None when it writes more to a head."""
    return (_queueing if NEW_WORK in plan.writes else _completing)(plan, now_us)


def _queueing(plan: Plan, now_us: int | None) -> Call | None:
    if _besides_queue(plan.before.head) != _besides_queue(plan.after.head):
        return None
    (row,), (line,) = plan.writes[NEW_WORK], plan.writes[RAISED_LINES]
    if line.priority != row.priority:
        return None
    batch = _batch(row)
    keyed = frozenset({"source_key"})
    if row.source_key is None:
        batch, keyed = (*batch[:9], *batch[10:]), frozenset()
    standing = _standing(plan.key[0], plan.before)
    when = (now_us, plan.now_us, plan.live)
    return _text("enqueue_alone", keyed), (*standing, *when, *batch, line.due_us)


def _completing(plan: Plan, now_us: int | None) -> Call | None:
    after, writes = plan.after.head, plan.writes
    if _besides_turn(plan.before.head) != _besides_turn(after):
        return None
    (turn,), (claim,), ended = writes[NEW_TURNS], writes[COMPLETED_CLAIMS], writes[ENDED_BATCHES]
    if turn.count or turn.created_us != after.updated_us:
        return None
    (line,) = writes[SETTLED_LINES]
    moved = writes.get(MOVED_SESSIONS)
    more = {"queue": line.queue, "recency": None if moved is None else moved[0].recency}
    given = frozenset([name for name, value in more.items() if value is not None])
    return _text("complete_alone", given), (
        *_standing(plan.key[0], plan.before),
        *(now_us, plan.live, turn.id, claim.claim, len(ended), claim.token),
        *(turn.revision, turn.created_us, turn.link, *_lease(after), *_turn(turn)),
        *(f"{{{claim.batches}}}", Blobs([row.body for row in ended])),
        *(ended[0].ended_us, ended[0].reason),
        *(() if line.queue is None else (line.queue,)),
        line.floor_us,
        *(() if moved is None else (moved[0].recency,)),
    )


def claim_call(command: ClaimWork, known: Known, now_us: int | None) -> Call | None:
    """The same for a claim of one batch, under a lease that this process knows of."""
    guard = command.guard
    if command.max_batches != 1 or known.head.deleted_us is not None:
        return None
    is_safe = command.boundary != "idle"
    given = frozenset(
        name
        for name, there in (("queue", command.queue is not None), ("is_safe", is_safe))
        if there
    )
    queue = () if command.queue is None else (command.queue,)
    return _text("claim_alone", given), (
        *_standing(command.tenant, known),
        *(now_us, guard.fence, guard.token, command.claim, *queue),
        *(command.token, command.owner, command.ttl_us),
    )


def _standing(tenant: str, known: Known) -> tuple[Any, ...]:
    """By what a head is known again."""
    head = known.head
    return tenant, head.number, known.version, head.updated_us, head.expires_us


@cache
def _text(query: str, given: frozenset[str]) -> str:
    statement = statements()[query]
    text, _ = statement.variant(frozenset(statement.arguments) - _OPTIONAL | given)
    return text
