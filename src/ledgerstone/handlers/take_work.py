"""Taking a session that has work: a fresh lease and a claim, in one step."""

from __future__ import annotations

from copy import copy

from msgspec.structs import replace

from ledgerstone.commands.work import TakeWork
from ledgerstone.handlers.claims import choose_work, own
from ledgerstone.handlers.heads import save_head
from ledgerstone.handlers.ready import next_ready, settle_claimed, settle_lines
from ledgerstone.handlers.registry import handles
from ledgerstone.records.work import Taken
from ledgerstone.rules.work import (
    TAKE_ROUNDS,
    claiming_of,
    grant,
    later_us,
    new_claim,
    wanted_by,
)
from ledgerstone.tables.sessions import HEADS, SESSIONS, Head
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import READY, ReadyRow


@handles(TakeWork)
async def take_work(tx: Tx, command: TakeWork) -> Taken | None:
    """The first session in the line that has something to do and no owner."""
    for _ in range(TAKE_ROUNDS if command.max_batches else 0):
        line = await next_ready(tx, command.tenant, command.queue)
        if line is None:
            return None
        head = await tx.get(HEADS, line.number)
        if head is None or head.deleted_us is not None:
            tx.delete(READY, line.number, line.queue)
            continue
        later = later_us(line.due_us, head)
        if later > line.due_us:
            # It was held since it was put into the line: then it is due when that ends.
            tx.put(READY, replace(line, due_us=later))
            continue
        taken = await _take(tx, command, copy(head), line)
        if taken is not None:
            return taken
    return None


async def _take(tx: Tx, command: TakeWork, head: Head, line: ReadyRow) -> Taken | None:
    row = await tx.get(SESSIONS, line.number)
    if row is None:
        tx.delete(READY, line.number, line.queue)
        return None
    granted = copy(head)
    claiming = claiming_of(command, row.id)
    lease = grant(granted, command, row.id, tx.now_us)
    choice = await choose_work(tx, granted, wanted_by(claiming), [line])
    if not choice.group:
        await settle_lines(tx, head, [line])
        return None
    save_head(tx, granted)
    claim = own(tx, granted, choice.group, new_claim(claiming, granted.fence, tx.now_us))
    await settle_claimed(tx, granted, choice, [line])
    return Taken(lease, claim)
