"""Verify, fourth part: the queue, and the line in which workers look for it."""

from __future__ import annotations

from ledgerstone.sql.tx import Tx
from ledgerstone.sql.verify_standing import Check


async def check_work(tx: Tx, check: Check) -> None:
    """Every queue with work has its place in the line, and no other has one."""
    head = check.head
    waiting = {queue for (queue,) in await tx.all("queues_of", head.number)}
    for queue, least, last, priority in await tx.all("queue_places", head.number):
        waiting.discard(queue)
        if last > head.enqueued:
            check.defect("head", "enqueued", f"{head.enqueued}, there is number {last}")
        # A worker that finds the session deleted takes it out of the line.
        lost = priority is None and head.deleted_us is None
        if lost or priority not in (None, least):
            found = f"has priority {priority}, its work {least}"
            check.defect("work", f"queue {queue}", "no worker would find it" if lost else found)
    for queue in sorted(waiting):
        check.defect("work", f"queue {queue}", "is in the line of workers and has no work")
