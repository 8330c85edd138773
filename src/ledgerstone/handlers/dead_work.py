"""Dead letters: batches that had their attempts."""

from __future__ import annotations

from ledgerstone.commands.work import DropDead, ListDead, ReplayWork
from ledgerstone.errors import AlreadyExists, BatchNotFound
from ledgerstone.handlers.heads import find_head, need_head, save_head
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.work import add_batch
from ledgerstone.records.sessions import Page
from ledgerstone.records.work import Batch, DeadBatch
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.work import WorkRow, dead_batch, dead_body, revived
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.table import Index
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import (
    DEAD_WORK,
    DEAD_WORK_BY_SESSION,
    DEAD_WORK_BY_TIME,
    WORK,
    WORK_BY_ID,
    WORK_BY_SOURCE,
    DeadWorkRow,
)


def bury(tx: Tx, of: tuple[str, str], head: Head, row: WorkRow, reason: str) -> None:
    """Move a batch from the queue to the dead letters; `of` is tenant and session."""
    tenant, session = of
    tx.delete(WORK, head.number, row.seq)
    body = dead_body(session, row)
    tx.put(DEAD_WORK, DeadWorkRow(tenant, row.id, head.number, tx.now_us, reason, body))


@handles(ReplayWork)
async def replay_work(tx: Tx, command: ReplayWork) -> Batch:
    """A dead batch goes to the end of its queue again, as if it were new."""
    row = await _find(tx, command.tenant, command.batch)
    if row is None:
        raise BatchNotFound(command.batch)
    batch = _record(row).batch
    head = await need_head(tx, command.tenant, batch.session)
    check_alive(batch.session, head)
    if await tx.fresh(WORK_BY_ID, [(head.number, batch.id)]) is not None:
        raise AlreadyExists(batch.id)
    twin = None
    if batch.source_key is not None:
        twin = await tx.fresh(WORK_BY_SOURCE, [(head.number, batch.source_key)])
    _drop(tx, row)
    queued = await add_batch(tx, command.tenant, head, revived(batch, keyed=twin is None))
    save_head(tx, head)
    return queued


@handles(DropDead)
async def drop_dead(tx: Tx, command: DropDead) -> bool:
    """Forget a dead batch."""
    row = await _find(tx, command.tenant, command.batch)
    if row is not None:
        _drop(tx, row)
    return row is not None


async def _find(tx: Tx, tenant: str, id: str) -> DeadWorkRow | None:
    """A dead batch by its id: of the oldest session, should several have one."""
    found = await tx.scan(DEAD_WORK.primary, tenant, id, limit=1)
    return found[0] if found else None


def _drop(tx: Tx, row: DeadWorkRow) -> None:
    tx.delete(DEAD_WORK, row.tenant, row.id, row.number)


def _record(row: DeadWorkRow) -> DeadBatch:
    return dead_batch(row.id, row.body, row.reason, row.dead_us)


@handles(ListDead)
async def list_dead(tx: Tx, query: ListDead) -> Page[DeadBatch]:
    """Dead letters, oldest first."""
    index: Index[DeadWorkRow] = DEAD_WORK_BY_TIME
    owner: str | int = query.tenant
    if query.session is not None:
        head = await find_head(tx, query.tenant, query.session)
        index, owner = DEAD_WORK_BY_SESSION, 0 if head is None else head.number
    total = None
    if query.total:
        total = len(await tx.scan_columns(index, ("id",), owner))
    end = query.offset + query.limit
    rows = await tx.scan(index, owner, after=query.after, limit=end + 1)
    items = [_record(row) for row in rows[query.offset : end]]
    return Page(items, len(rows) > end, None, total)
