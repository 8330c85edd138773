"""The per-session queue: enqueue, cancel, list, and what a commit does to it."""

from __future__ import annotations

from ledgerstone.commands.work import CancelWork, Completion, EnqueueWork, ListWork, NewBatch
from ledgerstone.errors import ClaimLost, Corrupt
from ledgerstone.records.work import Batch
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.work import WorkRow, batch_of, has_live_claim, new_row
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.heads import find_head, need_head
from ledgerstone.sql.ready import raise_ready, settle_queue, settle_queues, settle_ready
from ledgerstone.sql.tx import Tx


async def enqueue_work(tx: Tx, command: EnqueueWork) -> Batch:
    """Queue a batch once per id and, while queued, once per source key."""
    session = command.batch.session
    head = await need_head(tx, command.tenant, session)
    check_alive(session, head)
    return await put_batch(tx, command.tenant, head, command.batch)


async def put_batch(tx: Tx, tenant: str, head: HeadRow, batch: NewBatch) -> Batch:
    """The batch as it is queued now, or was already; the session of `head` must be alive."""
    row = new_row(batch, head.enqueued + 1, tx.now_us)
    is_new = await tx.run(
        "insert_batch",
        head.number,
        int(row.available_us > tx.now_us),
        row.seq,
        row.queue,
        row.priority,
        row.id,
        row.source_key,
        row.delivery,
        row.slot,
        row.merge,
        row.available_us,
        row.max_attempts,
        row.backoff_us,
        row.payloads,
        row.enqueued_us,
    )
    if not is_new:
        return batch_of(batch.session, await _twin(tx, head, batch))
    head.enqueued = row.seq
    await tx.run("count_enqueued", head.number, head.enqueued)
    await raise_ready(tx, tenant, head, row)
    return batch_of(batch.session, row)


async def _twin(tx: Tx, head: HeadRow, batch: NewBatch) -> WorkRow:
    """What is queued in the place of a batch; the one with its own id comes first."""
    found = await tx.pick("find_batch", number=head.number, id=batch.id)
    if not found and batch.source_key is not None:
        found = await tx.pick("find_batch", number=head.number, source_key=batch.source_key)
    if not found:
        raise Corrupt("heads", batch.session, "enqueued", f"{head.enqueued}, less than was queued")
    return WorkRow(*found[0])


async def wake_session(tx: Tx, tenant: str, batch: NewBatch) -> None:
    """Enqueue a wake-up; a session that is gone or deleted does not hear it."""
    head = await find_head(tx, tenant, batch.session)
    if head is not None and head.deleted_us is None:
        await put_batch(tx, tenant, head, batch)


async def enqueue_in_commit(tx: Tx, commit: Commit) -> None:
    """Enqueue what a commit brings, here or in another session."""
    command = commit.command
    for batch in command.enqueue:
        head = commit.head
        if batch.session != command.session:
            head = await need_head(tx, command.tenant, batch.session)
            check_alive(batch.session, head)
        await put_batch(tx, command.tenant, head, batch)
    commit.effects["enqueued"] = [[batch.session, batch.id] for batch in command.enqueue]


async def complete_claims(
    tx: Tx, session: str, head: HeadRow, claims: tuple[Completion, ...]
) -> None:
    """Settle claims inside a commit; a lost one rejects the whole commit."""
    for one in claims:
        places = await tx.all("claim_places", head.number, one.claim)
        if not places or any((row[0], row[2]) != (head.fence, one.token) for row in places):
            raise ClaimLost(session, one.claim)
        await tx.run("complete_claim", head.number, one.claim)
        await settle_queues(tx, head, [queue for _, queue, _ in places])


async def claimed_rows(tx: Tx, head: HeadRow, claim: str) -> list[WorkRow]:
    """What stands under a claim, of whatever generation."""
    return [WorkRow(*row) for row in await tx.all("claimed_batches", head.number, claim)]


async def free(tx: Tx, head: HeadRow, row: WorkRow) -> None:
    """A batch is nobody's again, now or later."""
    later = int(row.available_us > tx.now_us)
    values = (later, row.available_us, row.attempts, row.last_error)
    await tx.run("free_batch", head.number, row.id, *values)


async def cancel_work(tx: Tx, command: CancelWork) -> Batch | None:
    """Remove a batch that nobody works on."""
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return None
    check_alive(command.session, head)
    found = await tx.pick("find_batch", number=head.number, id=command.batch)
    row = WorkRow(*found[0]) if found else None
    if row is None or has_live_claim(row, head, tx.now_us):
        return None
    await tx.run("drop_batch", head.number, row.id)
    if row.waiting_for is None:
        await settle_queue(tx, head, row.queue)
    else:
        await settle_ready(tx, head)  # What stood behind it, in any queue, can be had again.
    return batch_of(command.session, row)


async def list_work(tx: Tx, query: ListWork) -> list[Batch]:
    """Everything queued; `pending`: what nobody works on."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    rows = [WorkRow(*row) for row in await tx.all("list_work", head.number)]
    if query.pending:
        rows = [row for row in rows if not has_live_claim(row, head, tx.now_us)]
    return [batch_of(query.session, row) for row in rows]
