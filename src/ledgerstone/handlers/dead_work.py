"""Dead letters: batches that had their attempts."""

from __future__ import annotations

from ledgerstone.commands.work import DropDead, ListDead, ReplayWork
from ledgerstone.errors import AlreadyExists, BatchNotFound
from ledgerstone.handlers.ended_work import end, ended_page, forget
from ledgerstone.handlers.heads import need_head, save_head
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.work import add_batch
from ledgerstone.records.sessions import Page
from ledgerstone.records.work import Batch, DeadBatch
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.work import WorkRow, dead_batch, revived
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import (
    DEAD_WORK_BY_ID,
    WORK_BY_ID,
    WORK_BY_SOURCE,
    EndedWorkRow,
)


async def bury(tx: Tx, of: tuple[str, str], head: Head, row: WorkRow, reason: str) -> None:
    """Move a batch from the queue to the dead letters, over an earlier one of the same id."""
    for old in await tx.scan(DEAD_WORK_BY_ID, of[0], row.id, head.number):
        forget(tx, old)
    end(tx, of, head, [row], "dead", reason)


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
    forget(tx, row)
    queued = await add_batch(tx, command.tenant, head, revived(batch, keyed=twin is None))
    save_head(tx, head)
    return queued


@handles(DropDead)
async def drop_dead(tx: Tx, command: DropDead) -> bool:
    """Forget a dead batch."""
    row = await _find(tx, command.tenant, command.batch)
    if row is not None:
        forget(tx, row)
    return row is not None


async def _find(tx: Tx, tenant: str, id: str) -> EndedWorkRow | None:
    """A dead batch by its id: of the oldest session, should several have one."""
    found = await tx.scan(DEAD_WORK_BY_ID, tenant, id, limit=1)
    return found[0] if found else None


@handles(ListDead)
async def list_dead(tx: Tx, query: ListDead) -> Page[DeadBatch]:
    """Dead letters, oldest first."""
    return await ended_page(tx, query, "dead", _record)


def _record(row: EndedWorkRow) -> DeadBatch:
    return dead_batch(row.id, row.body, row.reason, row.ended_us)
