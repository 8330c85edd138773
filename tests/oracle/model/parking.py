"""Waking batches that wait for a decision about an execution."""

from __future__ import annotations

from ledgerstone.rules.work import woken
from tests.oracle.model.ready import settle_ready
from tests.oracle.model.standing import Standing
from tests.oracle.model.state import Tx
from tests.oracle.model.work_rows import parked_rows, put_row


def wake(tx: Tx, standing: Standing, execution: str | None = None) -> None:
    """What waits for an execution, or for any of the session, can be claimed again."""
    rows = [
        row
        for row in parked_rows(tx, standing.number)
        if execution is None or row.waiting_for == execution
    ]
    for row in rows:
        put_row(tx, standing.number, woken(row, tx.now_us))
    if rows:
        settle_ready(tx, standing)
