"""Waking batches that wait for a decision about an execution."""

from __future__ import annotations

from ledgerstone.rules.parking import claim_of, woken
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.work import WorkRow
from ledgerstone.sql.ready import settle_ready
from ledgerstone.sql.tx import Tx
from ledgerstone.sql.work import claimed_rows, free


async def wake(tx: Tx, head: HeadRow, execution: str | None = None) -> None:
    """What waits for an execution, or for any of the session, can be claimed again."""
    if not head.enqueued:
        return
    if execution is None:
        rows = [WorkRow(*row) for row in await tx.all("parked_batches", head.number)]
    else:
        rows = await claimed_rows(tx, head, claim_of(execution))
    rows = [row for row in rows if row.waiting_for is not None]
    for row in rows:
        await free(tx, head, woken(row, tx.now_us))
    if rows:
        await settle_ready(tx, head)
