"""Waking batches that wait for a decision about an execution."""

from __future__ import annotations

from ledgerstone.handlers.ready import settle_ready
from ledgerstone.handlers.work import claimed_rows, stored
from ledgerstone.rules.parking import claim_of, woken
from ledgerstone.rules.work import WorkRow
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import WORK, WORK_PARKED


async def wake(tx: Tx, head: Head, execution: str | None = None) -> None:
    """What waits for an execution, or for any of the session, can be claimed again."""
    if not head.enqueued:
        return
    rows: list[WorkRow]
    if execution is None:
        rows = [*await tx.scan(WORK_PARKED, head.number)]
    else:
        rows = await claimed_rows(tx, head, claim_of(execution))
    rows = [row for row in rows if row.waiting_for is not None]
    for row in rows:
        tx.put(WORK, stored(tx, head, woken(row, tx.now_us)))
    if rows:
        await settle_ready(tx, head)
