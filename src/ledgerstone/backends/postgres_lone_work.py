"""Work when nobody else waits: queueing, claiming and completing as one plain statement each.

The twin of postgres_lone.py; why that is enough, says sql/queries/postgres_own/alone_work.sql. What
is unusual does not fit, and goes the way of groups.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ledgerstone.backends.postgres_heads import Known
from ledgerstone.backends.postgres_plan import ENQUEUED, EXPIRES, UPDATED, Plan
from ledgerstone.backends.postgres_tx import statements
from ledgerstone.commands.work import ClaimWork

_QUEUEING = frozenset({"insert_batch", "raise_ready"})
_COMPLETING = frozenset({"insert_turn", "complete_claim", "settle_ready"})
_WITH_RECENCY = _COMPLETING | {"move_recency"}
_IS_TIMED = 4
_OPTIONAL = frozenset({"source_key", "queue", "recency", "is_safe"})

Call = tuple[str, tuple[Any, ...]]


def fits(plan: Plan | None) -> bool:
    """Whether it queues one batch and does nothing else, or completes one claim."""
    if plan is None or plan.error is not None:
        return False
    keys = plan.writes.keys()
    if keys != _QUEUEING and not (_COMPLETING <= keys <= _WITH_RECENCY and not plan.flags):
        return False
    one_each = not [1 for rows in plan.writes.values() if len(rows) != 1]
    return one_each and not plan.flags & ~_IS_TIMED


def call_of(plan: Plan, now_us: int | None) -> Call | None:
    """The statement that carries it out, and its arguments; None when it writes more to a head."""
    is_queueing = "insert_batch" in plan.writes
    return _queueing(plan, now_us) if is_queueing else _completing(plan, now_us)


def _queueing(plan: Plan, now_us: int | None) -> Call | None:
    before, after = plan.before.head, plan.after.head
    if before[:ENQUEUED] != after[:ENQUEUED]:
        return None
    batch = plan.writes["insert_batch"][0]
    _, later, seq, queue, priority, id, source_key, *policies = batch[:10]
    available_us, max_attempts, backoff_us, payloads, enqueued_us = batch[10:]
    _, _, _, line_priority, due_us = plan.writes["raise_ready"][0]
    if line_priority != priority:
        return None
    keyed = () if source_key is None else (source_key,)
    text = _text("enqueue_alone", frozenset({"source_key"}) if keyed else frozenset())
    standing = _standing(plan.key[0], plan.before)
    when = (now_us, plan.now_us, plan.live)
    what = (seq, later, priority, available_us, max_attempts, backoff_us, enqueued_us)
    names = (queue, id, *keyed, *policies)
    return text, (*standing, *when, *what, *names, payloads, due_us)


def _completing(plan: Plan, now_us: int | None) -> Call | None:
    before, after = plan.before.head, plan.after.head
    if before[4:15] != after[4:15] or before[22:] != after[22:]:
        return None
    row = plan.writes["insert_turn"][0]
    revision, turn, kind, hash, link, moment_us, leaf, first_ord, count, usage, effects = row[1:]
    if count or link != after[21] or moment_us != after[UPDATED]:
        return None
    _, claim, batches, proof = plan.writes["complete_claim"][0]
    _, queue, floor_us = plan.writes["settle_ready"][0]
    recency = plan.writes.get("move_recency")
    more = {"queue": queue, "recency": None if recency is None else recency[0][1]}
    given = frozenset([name for name, value in more.items() if value is not None])
    text = _text("complete_alone", given)
    return text, (
        *_standing(plan.key[0], plan.before),
        *(now_us, plan.live, turn, claim, batches, proof),
        *(revision, moment_us, link, *after[15:20], kind, hash, leaf, first_ord, usage, effects),
        *(() if queue is None else (queue,)),
        floor_us,
        *(() if recency is None else (recency[0][1],)),
    )


def claim_call(command: ClaimWork, known: Known, now_us: int | None) -> Call | None:
    """The same for a claim of one batch, under a lease that this process knows of."""
    guard = command.guard
    if command.max_batches != 1 or known.head[2] is not None:
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
    return tenant, head[0], known.version, head[UPDATED], head[EXPIRES]


@cache
def _text(query: str, given: frozenset[str]) -> str:
    statement = statements()[query]
    text, _ = statement.variant(frozenset(statement.arguments) - _OPTIONAL | given)
    return text
