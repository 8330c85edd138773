"""What becomes of batches in the end: records of them, counted, until they are pruned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ledgerstone.commands.work import CountWork, ListDead, ListEnded, ListPrunable, PruneWork
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.registry import handles
from ledgerstone.records.sessions import Page
from ledgerstone.records.work import END_STATES, EndedBatch, EndState, WorkCounts
from ledgerstone.rules.work import WorkRow, dead_body, ended_batch
from ledgerstone.tables.sessions import SESSIONS, Head
from ledgerstone.tables.table import Index
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import (
    ENDED_WORK,
    ENDED_WORK_BY_SESSION,
    ENDED_WORK_BY_TIME,
    WORK,
    WORK_SUMS,
    WORK_SUMS_OF_TENANT,
    EndedWorkRow,
    WorkSumsRow,
)

R = TypeVar("R")


def end(
    tx: Tx, of: tuple[str, str], head: Head, rows: Sequence[WorkRow], state: EndState, reason: str
) -> None:
    """Move batches from the queue to what ended; `of` is tenant and session."""
    tenant, session = of
    ended = []
    for row in rows:
        tx.delete(WORK, head.number, row.seq)
        body = dead_body(session, row)
        ended.append(
            EndedWorkRow(head.number, row.seq, tenant, row.id, state, tx.now_us, reason, body)
        )
    tx.insert(ENDED_WORK, ended)
    _count(tx, tenant, head.number, state, len(ended))


def forget(tx: Tx, row: EndedWorkRow) -> None:
    """Remove the record of a batch."""
    tx.delete(ENDED_WORK, row.number, row.seq)
    _count(tx, row.tenant, row.number, row.state, -1)


def _count(tx: Tx, tenant: str, number: int, state: str, more: int) -> None:
    change: dict[str, Any] = {state: more}
    tx.add(WORK_SUMS, WorkSumsRow(number, tenant, **change))


@handles(ListEnded)
async def list_ended(tx: Tx, query: ListEnded) -> Page[EndedBatch]:
    """Batches that ended in a state, oldest first."""
    return await ended_page(tx, query, query.state, _record)


def _record(row: EndedWorkRow) -> EndedBatch:
    return ended_batch(row.id, row.body, row.state, row.reason, row.ended_us)


async def ended_page(
    tx: Tx, query: ListEnded | ListDead, state: EndState, record: Callable[[EndedWorkRow], R]
) -> Page[R]:
    """A page of what ended in a state, of one session or of all."""
    index: Index[EndedWorkRow] = ENDED_WORK_BY_TIME
    owner: tuple[str | int, str] = (query.tenant, state)
    if query.session is not None:
        head = await find_head(tx, query.tenant, query.session)
        index, owner = ENDED_WORK_BY_SESSION, (0 if head is None else head.number, state)
    total = None
    if query.total:
        total = len(await tx.scan_columns(index, ("id",), *owner))
    end = query.offset + query.limit
    rows = await tx.scan(index, *owner, after=query.after, limit=end + 1)
    items = [record(row) for row in rows[query.offset : end]]
    return Page(items, len(rows) > end, None, total)


@handles(CountWork)
async def count_work(tx: Tx, query: CountWork) -> WorkCounts:
    """Ended batches by state."""
    rows: list[WorkSumsRow] = []
    if query.session is None:
        rows = await tx.scan(WORK_SUMS_OF_TENANT, query.tenant)
    else:
        head = await find_head(tx, query.tenant, query.session)
        row = None if head is None else await tx.get(WORK_SUMS, head.number)
        rows = [] if row is None else [row]
    return WorkCounts(**{name: sum(getattr(row, name) for row in rows) for name in WORK_SUMS.sums})


@handles(ListPrunable)
async def list_prunable(tx: Tx, query: ListPrunable) -> list[str]:
    """Sessions with batches that ended before a moment."""
    numbers: set[int] = set()
    for state in END_STATES:
        found = await tx.scan_columns(
            ENDED_WORK_BY_TIME, ("number",), query.tenant, state,
            before=(query.before_us,), limit=query.limit,
        )  # fmt: skip
        numbers.update(number for (number,) in found)
    rows = await tx.get_many(SESSIONS, [(number,) for number in sorted(numbers)])
    return [row.id for row in rows if row is not None]


@handles(PruneWork)
async def prune_work(tx: Tx, command: PruneWork) -> int:
    """Forget what ended before a moment, a deleted session's too."""
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return 0
    left, before = command.limit, (command.before_us,)
    for state in END_STATES:
        rows = await tx.scan(ENDED_WORK_BY_SESSION, head.number, state, before=before, limit=left)
        for row in rows:
            forget(tx, row)
        left -= len(rows)
        if not left:
            break
    return command.limit - left
