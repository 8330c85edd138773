"""Taking a session that has work: a fresh lease and a claim, in one step."""

from __future__ import annotations

from copy import copy

from ledgerstone.commands.work import TakeWork
from ledgerstone.records.work import Taken
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.work import (
    TAKE_ROUNDS,
    claiming_of,
    grant,
    later_us,
    new_claim,
    wanted_by,
)
from ledgerstone.sql.claims import choose_work, look, own
from ledgerstone.sql.heads import set_lease
from ledgerstone.sql.ready import settle_claimed, settle_queue
from ledgerstone.sql.tx import Tx


async def take_work(tx: Tx, command: TakeWork) -> Taken | None:
    """The first session in the line that has something to do and no owner."""
    for _ in range(TAKE_ROUNDS if command.max_batches else 0):
        first = await tx.one("next_ready", command.tenant, command.queue, tx.now_us)
        if first is None:
            return None
        number, due_us = first
        row = await tx.one("session_at", number)
        if row is None or row[3] is not None:
            await tx.run("drop_ready", number, command.queue)
            continue
        session, head = row[0], HeadRow(*row[1:])
        later = later_us(due_us, head)
        if later > due_us:
            # It was held since it was put into the line: then it is due when that ends.
            await tx.run("move_ready", number, command.queue, later)
            continue
        taken = await _take(tx, command, session, head)
        if taken is not None:
            return taken
    return None


async def _take(tx: Tx, command: TakeWork, session: str, head: HeadRow) -> Taken | None:
    granted = copy(head)
    claiming = claiming_of(command, session)
    lease = grant(granted, command, session, tx.now_us)
    looks = await look(tx, head, command.claim)
    choice = await choose_work(tx, granted, wanted_by(claiming), looks)
    if not choice.group:
        await settle_queue(tx, head, command.queue)
        return None
    await set_lease(tx, granted)
    claim = new_claim(claiming, granted.fence, tx.now_us)
    claim = await own(tx, granted, choice.group, claim)
    await settle_claimed(tx, granted, choice)
    return Taken(lease, claim)
