"""Dead letters: batches that had their attempts."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.work import DropDead, ListDead, ReplayWork
from ledgerstone.errors import AlreadyExists, BatchNotFound
from ledgerstone.records.sessions import Page
from ledgerstone.records.work import Batch, DeadBatch
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.work import WorkRow, dead_batch, dead_body, revived
from ledgerstone.sql.heads import find_head, need_head
from ledgerstone.sql.tx import Tx
from ledgerstone.sql.work import put_batch


async def bury(tx: Tx, of: tuple[str, str], head: HeadRow, row: WorkRow, reason: str) -> None:
    """Move a batch from the queue to the dead letters; `of` is tenant and session."""
    tenant, session = of
    await tx.run("drop_batch", head.number, row.id)
    body = dead_body(session, row)
    before = await tx.run("drop_dead", tenant, row.id, head.number)
    place = (head.number, row.seq, tenant, row.id)
    await tx.run("put_dead", *place, tx.now_us, reason, body)
    if not before:
        await tx.run("count_dead_work", head.number, tenant, 1)


async def replay_work(tx: Tx, command: ReplayWork) -> Batch:
    """A dead batch goes to the end of its queue again, as if it were new."""
    row = await tx.one("find_dead", command.tenant, command.batch)
    if row is None:
        raise BatchNotFound(command.batch)
    number, *rest = row
    batch = dead_batch(*rest).batch
    head = await need_head(tx, command.tenant, batch.session)
    check_alive(batch.session, head)
    if await tx.pick("find_batch", number=head.number, id=batch.id):
        raise AlreadyExists(batch.id)
    twins = None
    if batch.source_key is not None:
        twins = await tx.pick("find_batch", number=head.number, source_key=batch.source_key)
    await _drop(tx, command, number)
    return await put_batch(tx, command.tenant, head, revived(batch, keyed=not twins))


async def drop_dead(tx: Tx, command: DropDead) -> bool:
    """Forget a dead batch."""
    row = await tx.one("find_dead", command.tenant, command.batch)
    if row is None:
        return False
    await _drop(tx, command, row[0])
    return True


async def _drop(tx: Tx, command: ReplayWork | DropDead, number: int) -> None:
    await tx.run("drop_dead", command.tenant, command.batch, number)
    await tx.run("count_dead_work", number, command.tenant, -1)


async def list_dead(tx: Tx, query: ListDead) -> Page[DeadBatch]:
    """Dead letters, oldest first."""
    given: dict[str, Any] = {"tenant": query.tenant}
    if query.session is not None:
        head = await find_head(tx, query.tenant, query.session)
        given["number"] = 0 if head is None else head.number
    total = None
    if query.total:
        rows = await tx.pick("count_dead", **given)
        total = int(rows[0][0])
    if query.after is not None:
        given |= {"dead_us": query.after[0], "id": query.after[1]}
    rows = await tx.pick("list_dead", limit=query.limit + 1, offset=query.offset, **given)
    items = [dead_batch(*row) for row in rows[: query.limit]]
    return Page(items, len(rows) > query.limit, None, total)
