"""The line of sessions that have work: who is due, when, and why others do not move."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from ledgerstone.commands.work import ExplainWork, PeekWork
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.registry import handles
from ledgerstone.records.work import Stuck
from ledgerstone.rules.stuck import Obstacle, Situation, reasons
from ledgerstone.rules.work import PARKED_US, PEEK_ROWS, Choice, WorkRow, due_us, later_us
from ledgerstone.tables.sessions import HEADS, SESSIONS, Head
from ledgerstone.tables.tickets import EXECUTIONS_BY_SESSION, TICKETS_BY_SESSION
from ledgerstone.tables.transaction import FOREVER_US, Tx
from ledgerstone.tables.work import (
    ENDED_WORK_BY_SESSION,
    ENDED_WORK_BY_TIME,
    READY,
    READY_DUE,
    WORK,
    WORK_IN_ORDER,
    WORK_LATER,
    WORK_PARKED,
    ReadyRow,
)


async def raise_ready(tx: Tx, tenant: str, head: Head, row: WorkRow) -> None:
    """A batch was enqueued: the session keeps its place in the line, or gets one."""
    due = due_us(row.available_us, head, tx.now_us)
    old = await tx.get(READY, head.number, row.queue)
    line = ReadyRow(head.number, row.queue, tenant, row.priority, due)
    if old is not None:
        line = replace(old, priority=min(row.priority, old.priority), due_us=min(due, old.due_us))
    _move(tx, old, line)


async def settle_ready(tx: Tx, head: Head) -> None:
    """Bring the line up to date after a lease ended."""
    if head.enqueued:
        await settle_rows(tx, head, await ready_rows(tx, head))


async def settle_queues(tx: Tx, head: Head, queues: Iterable[str]) -> None:
    """The same for the queues of batches that were changed."""
    lines = await tx.get_many(READY, [(head.number, queue) for queue in sorted(set(queues))])
    await settle_rows(tx, head, [line for line in lines if line is not None])


async def settle_claimed(tx: Tx, head: Head, choice: Choice, lines: Sequence[ReadyRow]) -> None:
    """The same after a claim, for less: what was claimed is available, and the session is held."""
    changed = {row.queue for row in (*choice.spent, *choice.group)}
    lines = [line for line in lines if line.queue in changed]
    if choice.spent:
        await settle_rows(tx, head, lines)
        return
    for line in lines:
        _move(tx, line, replace(line, due_us=due_us(0, head, tx.now_us)))


async def settle_rows(tx: Tx, head: Head, lines: Sequence[ReadyRow]) -> None:
    """The same for rows that were just read."""
    for line in lines:
        _move(tx, line, await _ready_row(tx, line.tenant, head, line.queue))


async def restore_ready(tx: Tx, tenant: str, head: Head) -> None:
    """Put a session that was deleted into the line again.

    Its queues follow from the work itself: a worker that found the session deleted has removed it
    from the line.
    """
    after: tuple[str] | None = None
    while found := await tx.scan_columns(
        WORK_IN_ORDER, ("queue",), head.number, after=after, limit=1
    ):
        after = (found[0][0],)
        _move(tx, None, await _ready_row(tx, tenant, head, found[0][0]))


def _move(tx: Tx, old: ReadyRow | None, new: ReadyRow | None) -> None:
    """Write a place in the line, when it is another one."""
    if new is None:
        if old is not None:
            tx.delete(READY, old.number, old.queue)
    elif new != old:
        tx.put(READY, new)


async def _ready_row(tx: Tx, tenant: str, head: Head, queue: str) -> ReadyRow | None:
    """Where a queue stands in the line by what is in it; None when it is empty."""
    columns = ("later", "priority", "seq", "available_us")
    firsts = await tx.scan_columns(WORK_IN_ORDER, columns, head.number, queue, limit=1)
    if not firsts:
        return None
    later, priority, seq, available_us = firsts[0]
    parked = await first_parked(tx, head.number)
    is_behind = parked is not None and parked < (priority, seq)
    if later or is_behind or available_us > tx.now_us:
        available_us = await _first_start(tx, head.number, queue, parked)
    if not later:
        place = (head.number, queue, 1)
        others = await tx.scan_columns(WORK_IN_ORDER, ("priority",), *place, limit=1)
        priority = min([priority, *(one for (one,) in others)])
    due = due_us(available_us, head, tx.now_us)
    return ReadyRow(head.number, queue, tenant, priority, due)


async def first_parked(tx: Tx, number: int) -> tuple[int, int] | None:
    """Priority and seq of the first batch that waits for a decision.

    It blocks its session: batches behind it, in any queue, wait with it.
    """
    found = await tx.scan_columns(WORK_PARKED, ("priority", "seq"), number, limit=1)
    return (found[0][0], found[0][1]) if found else None


async def _first_start(tx: Tx, number: int, queue: str, parked: tuple[int, int] | None) -> int:
    """When the first batch of a queue becomes available that is not behind the parked one."""
    columns, place = ("available_us",), (number, queue)
    starts = await tx.scan_columns(WORK_IN_ORDER, columns, *place, 0, before=parked)
    if parked is None:
        starts += await tx.scan_columns(WORK_LATER, columns, *place, limit=1)
    else:
        starts += await tx.scan_columns(WORK_IN_ORDER, columns, *place, 1, before=parked)
    return min((start for (start,) in starts), default=PARKED_US)


async def ready_rows(tx: Tx, head: Head) -> list[ReadyRow]:
    """The places of a session in the line: one for each queue in which it has work."""
    return await tx.scan(READY.primary, head.number)


async def next_ready(tx: Tx, tenant: str, queue: str) -> ReadyRow | None:
    """The session that is due: of the most urgent priority that has one, due for longest."""
    first = await _first_ready(tx, tenant, queue, -1)
    while first is not None and first.due_us > tx.now_us:
        first = await _first_ready(tx, tenant, queue, first.priority)
    return first


async def _first_ready(tx: Tx, tenant: str, queue: str, above: int) -> ReadyRow | None:
    """The first row of the first priority above the given one."""
    found = await tx.scan(READY_DUE, tenant, queue, after=(above,), limit=1)
    return found[0] if found else None


@handles(PeekWork)
async def peek_work(tx: Tx, query: PeekWork) -> int | None:
    """When the first session of the queue is due; the ends of leases count."""
    best = FOREVER_US
    first = await _first_ready(tx, query.tenant, query.queue, -1)
    while first is not None:
        best = min(best, await _first_due(tx, first))
        first = await _first_ready(tx, query.tenant, query.queue, first.priority)
    return None if best == FOREVER_US else best


async def _first_due(tx: Tx, first: ReadyRow) -> int:
    """When the first session of a priority is due, as far as PEEK_ROWS of them tell."""
    best = await _when_free(tx, first)
    if best == first.due_us:
        return best
    behind = (first.due_us, first.number)
    rest = await tx.scan(
        READY_DUE, first.tenant, first.queue, first.priority, after=behind, limit=PEEK_ROWS - 1
    )
    for line in rest:
        if line.due_us >= best:
            return best
        best = min(best, await _when_free(tx, line))
    return best if len(rest) < PEEK_ROWS - 1 else rest[-1].due_us


async def _when_free(tx: Tx, line: ReadyRow) -> int:
    """When a session is due and its lease is over; never for a deleted one."""
    head = await tx.get(HEADS, line.number)
    if head is None or head.deleted_us is not None:
        return FOREVER_US
    return later_us(line.due_us, head)


@handles(ExplainWork)
async def explain_work(tx: Tx, query: ExplainWork) -> list[Stuck]:
    """One session's reasons, or the first reason of each session that has any."""
    if query.session is None:
        return await _overview(tx, query)
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    return reasons(await _situation(tx, query.session, head), tx.now_us)


async def _overview(tx: Tx, query: ExplainWork) -> list[Stuck]:
    """Sessions with work, those due for longest first, then those with dead letters."""
    lines = await tx.scan_columns(READY_DUE, ("due_us", "number"), query.tenant)
    heads = await _first_sessions(tx, lines, query.limit, later_us)
    if len(heads) < query.limit:
        columns = ("ended_us", "number")
        dead = await tx.scan_columns(ENDED_WORK_BY_TIME, columns, query.tenant, "dead")
        heads |= await _first_sessions(tx, dead, query.limit, lambda ended_us, _: ended_us)
    found: list[Stuck] = []
    for number, head in list(heads.items())[: query.limit]:
        row = await tx.get(SESSIONS, number)
        if row is not None:
            found += reasons(await _situation(tx, row.id, head), tx.now_us)[:1]
    return found


async def _first_sessions(
    tx: Tx, moments: list[tuple[int, int]], limit: int, put_off: Callable[[int, Head], int]
) -> dict[int, Head]:
    """The sessions whose first moment is the earliest, in that order, without deleted ones.

    `put_off` is never before the moment it is given: so nobody looks at heads that come too late.
    """
    firsts: dict[int, int] = {}
    for moment, number in sorted(moments):
        firsts.setdefault(number, moment)
    order: list[tuple[int, int]] = []
    heads: dict[int, Head] = {}
    for number, moment in firsts.items():
        if len(order) >= limit > 0 and order[limit - 1] < (moment, number):
            break
        head = await tx.get(HEADS, number)
        if head is not None and head.deleted_us is None:
            insort(order, (put_off(moment, head), number))
            heads[number] = head
    return {number: heads[number] for _, number in order[:limit]}


async def _situation(tx: Tx, session: str, head: Head) -> Situation:
    number = head.number
    tickets = await tx.scan_columns(
        TICKETS_BY_SESSION, ("status", "id", "created_us", "expires_us"), number
    )
    executions = await tx.scan_columns(
        EXECUTIONS_BY_SESSION, ("status", "id", "created_us"), number
    )
    columns = ("id", "ended_us", "reason")
    dead = await tx.scan_columns(ENDED_WORK_BY_SESSION, columns, number, "dead")
    return Situation(
        session,
        head,
        [*await tx.scan(WORK.primary, number)],
        [Obstacle(*rest) for status, *rest in tickets if status == "open"],
        [Obstacle(*rest) for status, *rest in executions if status == "started"],
        [Obstacle(id, ended_us, None, reason) for id, ended_us, reason in dead],
    )
