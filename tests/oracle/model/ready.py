"""The line of sessions that have work: who is due, and when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledgerstone.commands.work import PeekWork
from ledgerstone.rules.work import PEEK_ROWS, WorkRow, due_us, later_us
from tests.oracle.model.rows import ReadyRow
from tests.oracle.model.standing import Standing
from tests.oracle.model.state import Tx
from tests.oracle.model.work_rows import first_of, queued

Due = tuple[str, str, int, int, int]
"""Tenant, queue, priority, due_us and number: a place in the line."""


def raise_ready(tx: Tx, standing: Standing, row: WorkRow) -> None:
    """A batch was enqueued: the session keeps its place in the line, or gets one."""
    priority, due = row.priority, due_us(row.available_us, standing.head, tx.now_us)
    old = tx.state.ready.get((standing.number, row.queue))
    if old is not None:
        priority, due = min(priority, old.priority), min(due, old.due_us)
    put_ready(tx, standing.number, row.queue, ReadyRow(standing.tenant, priority, due))


def settle_ready(tx: Tx, standing: Standing) -> None:
    """Bring the line up to date after a lease ended."""
    if ("work", standing.number) in tx.state.counters:
        for (_, queue), _ in list(tx.state.ready.scan((standing.number,))):
            settle_queue(tx, standing, queue)


def settle_rows(tx: Tx, standing: Standing, rows: Iterable[WorkRow]) -> None:
    """The same for the queues of batches that were changed."""
    for queue in sorted({row.queue for row in rows}):
        settle_queue(tx, standing, queue)


def settle_queue(tx: Tx, standing: Standing, queue: str) -> None:
    """The same for one queue: to the end of the line, or out of it."""
    if (standing.number, queue) in tx.state.ready:
        put_ready(tx, standing.number, queue, _standing(tx, standing, queue))


def restore_ready(tx: Tx, standing: Standing) -> None:
    """Put a session that was deleted into the line again."""
    for queue in sorted({row.queue for row in queued(tx, standing.number)}):
        put_ready(tx, standing.number, queue, _standing(tx, standing, queue))


def _standing(tx: Tx, standing: Standing, queue: str) -> ReadyRow | None:
    first = first_of(tx, standing.number, queue)
    if first is None:
        return None
    priority, available_us = first
    return ReadyRow(standing.tenant, priority, due_us(available_us, standing.head, tx.now_us))


def put_ready(tx: Tx, number: int, queue: str, row: ReadyRow | None) -> None:
    """Give a session another place in the line; None takes it out."""
    key = (number, queue)
    old = tx.state.ready.get(key)
    if row == old:
        return
    if old is not None:
        tx.state.ready_due.delete((old.tenant, queue, old.priority, old.due_us, number))
    if row is None:
        tx.state.ready.delete(key)
        return
    tx.state.ready.put(key, row)
    tx.state.ready_due.insert((row.tenant, queue, row.priority, row.due_us, number), None)


def next_ready(tx: Tx, tenant: str, queue: str) -> Due | None:
    """The session that is due: of the most urgent priority that has one, due for longest."""
    for first in _firsts(tx, tenant, queue):
        if first[3] <= tx.now_us:
            return first
    return None


def _firsts(tx: Tx, tenant: str, queue: str) -> Iterator[Due]:
    """The first session of each priority."""
    line, priority = tx.state.ready_due, -1
    while True:
        since = (tenant, queue, priority + 1)
        found = next(line.scan((tenant, queue), since=since), None)
        if found is None:
            return
        yield found[0]
        priority = found[0][2]


def peek_work(tx: Tx, query: PeekWork) -> int | None:
    """When the first session of the queue is due; the ends of leases count."""
    found = (_first_due(tx, first) for first in _firsts(tx, query.tenant, query.queue))
    return min((due for due in found if due is not None), default=None)


def _first_due(tx: Tx, first: Due) -> int | None:
    """When a session of one priority is due."""
    best: int | None = None
    for n, (key, _) in enumerate(tx.state.ready_due.scan(first[:3]), start=1):
        due = key[3]
        if best is not None and due >= best:
            return best
        head = tx.state.heads[(key[4],)]
        if head.deleted_us is None:
            later = later_us(due, head)
            best = later if best is None else min(best, later)
        if n == PEEK_ROWS:
            return due
    return best
