"""Interrupting the queue of a session."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands.work import InterruptWork
from ledgerstone.handlers.ended_work import end
from ledgerstone.handlers.heads import need_head
from ledgerstone.handlers.ready import settle_ready
from ledgerstone.handlers.registry import handles
from ledgerstone.records.work import Interrupted
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.work import batch_of, has_live_claim
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import WORK, WORK_SUMS, WorkSumsRow


@handles(InterruptWork)
async def interrupt_work(tx: Tx, command: InterruptWork) -> Interrupted:
    """Supersede what nobody works on, and mark the rest as not to be given out again."""
    head = await need_head(tx, command.tenant, command.session)
    check_alive(command.session, head)
    rows = await tx.scan(WORK.primary, head.number)
    running = [row for row in rows if has_live_claim(row, head, tx.now_us)]
    pending = [row for row in rows if not has_live_claim(row, head, tx.now_us)]
    end(tx, (command.tenant, command.session), head, pending, "superseded", command.reason)
    running = [replace(row, superseded=command.reason) for row in running]
    for row in running:
        tx.put(WORK, row)
    sums = await tx.get(WORK_SUMS, head.number)
    tx.add(WORK_SUMS, WorkSumsRow(head.number, command.tenant, epoch=1))
    await settle_ready(tx, head)
    return Interrupted(
        session=command.session,
        epoch=1 if sums is None else sums.epoch + 1,
        superseded=len(pending),
        running=[batch_of(command.session, row) for row in running],
    )
