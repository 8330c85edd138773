"""The line of sessions that have work: who is due, and when."""

from __future__ import annotations

from collections.abc import Iterable

from ledgerstone.commands.work import PeekWork
from ledgerstone.records.work import PRIORITY_MAX
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.work import PEEK_ROWS, Choice, WorkRow, due_us, later_us
from ledgerstone.sql.tx import Tx

FIRST_ROWS = 4
"""Enough for a look at the line when its first sessions are free."""


async def raise_ready(tx: Tx, tenant: str, head: HeadRow, row: WorkRow) -> None:
    """A batch was enqueued: the session keeps its place in the line, or gets one."""
    due = due_us(row.available_us, head, tx.now_us)
    await tx.run("raise_ready", head.number, row.queue, tenant, row.priority, due)


async def settle_ready(tx: Tx, head: HeadRow) -> None:
    """Bring the line up to date after a lease ended."""
    if head.enqueued:
        await _settle(tx, head, None)


async def settle_queues(tx: Tx, head: HeadRow, queues: Iterable[str]) -> None:
    """The same for the queues of batches that were changed."""
    for queue in sorted(set(queues)):
        await settle_queue(tx, head, queue)


async def settle_claimed(tx: Tx, head: HeadRow, choice: Choice) -> None:
    """The same after a claim, for less: what was claimed is available, and the session is held."""
    if choice.spent:
        await settle_queues(tx, head, [row.queue for row in (*choice.spent, *choice.group)])
        return
    due = due_us(0, head, tx.now_us)
    for queue in sorted({row.queue for row in choice.group}):
        await tx.run("move_ready", head.number, queue, due)


async def settle_queue(tx: Tx, head: HeadRow, queue: str) -> None:
    """The same for one queue: to the end of the line, or out of it."""
    await _settle(tx, head, queue)


async def _settle(tx: Tx, head: HeadRow, queue: str | None) -> None:
    await tx.run("drop_empty", head.number, queue)
    await tx.run("settle_ready", head.number, queue, due_us(0, head, tx.now_us))


async def restore_ready(tx: Tx, tenant: str, head: HeadRow) -> None:
    """Put a session that was deleted into the line again."""
    if not head.enqueued:
        return
    for (queue,) in await tx.all("queues_in_work", head.number):
        due = due_us(0, head, tx.now_us)
        await tx.run("drop_ready", head.number, queue)
        await tx.run("raise_ready", head.number, queue, tenant, PRIORITY_MAX, due)
        await _settle(tx, head, queue)


async def peek_work(tx: Tx, query: PeekWork) -> int | None:
    """When the first session of the queue is due; the ends of leases count."""
    best: int | None = None
    for (priority,) in await tx.all("ready_priorities", query.tenant, query.queue):
        found = await _first_due(tx, query, priority)
        if found is not None and (best is None or found < best):
            best = found
    return best


async def _first_due(tx: Tx, query: PeekWork, priority: int) -> int | None:
    best: int | None = None
    due, number = -1, 0
    for size in (FIRST_ROWS, PEEK_ROWS - FIRST_ROWS):
        place = (query.tenant, query.queue, priority, due, number)
        rows = await tx.all("ready_line", *place, size)
        for number, due, owner, expires_us, deleted_us in rows:
            if best is not None and due >= best:
                return best
            if deleted_us is None:
                later = later_us(due, HeadRow(number, owner=owner, expires_us=expires_us))
                best = later if best is None else min(best, later)
        if len(rows) < size:
            return best
    return due
