"""The per-session queue: enqueue, cancel, list, and what a commit does to it."""

from __future__ import annotations

from msgspec.structs import astuple

from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.work import CancelWork, EnqueueWork, ListWork, NewBatch
from ledgerstone.errors import AlreadyExists, ClaimLost, Corrupt
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.ended_work import end
from ledgerstone.handlers.heads import find_head, need_head, save_head
from ledgerstone.handlers.ready import raise_ready, settle_queue, settle_queues, settle_ready
from ledgerstone.handlers.registry import handles
from ledgerstone.records.work import Batch, OnDuplicate
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.work import WorkRow, batch_of, has_live_claim, new_row, owns
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import WORK, WORK_BY_CLAIM, WORK_BY_ID, WORK_BY_SOURCE
from ledgerstone.tables.work import WorkRow as StoredRow

_FIELDS = len(WorkRow.__struct_fields__)


def stored(tx: Tx, head: Head, row: WorkRow) -> StoredRow:
    """A batch as a row of its session, marked when it is not available yet."""
    later = int(row.available_us > tx.now_us)
    return StoredRow(*(*astuple(row)[:_FIELDS], head.number, later))


@handles(EnqueueWork)
async def enqueue_work(tx: Tx, command: EnqueueWork) -> Batch:
    """Queue a batch once per id and, while queued, once per source key."""
    return await _enqueue(tx, command.tenant, command.batch, command.on_duplicate)


async def _enqueue(
    tx: Tx, tenant: str, batch: NewBatch, on_duplicate: OnDuplicate = "answer"
) -> Batch:
    """Enqueue in a session whose head nobody has loaded."""
    head = await need_head(tx, tenant, batch.session)
    check_alive(batch.session, head)
    last = head.enqueued
    found = await put_batch(tx, tenant, head, batch)
    if head.enqueued != last:
        save_head(tx, head)
    elif on_duplicate == "refuse":
        raise AlreadyExists(found.id)
    return found


async def put_batch(tx: Tx, tenant: str, head: Head, batch: NewBatch) -> Batch:
    """The batch as it is queued now, or was already; the session of `head` must be alive.

    The caller saves the head, which counts what was enqueued.
    """
    twin = await tx.fresh(WORK_BY_ID, [(head.number, batch.id)])
    if twin is None and batch.source_key is not None:
        twin = await tx.fresh(WORK_BY_SOURCE, [(head.number, batch.source_key)])
    if twin is not None:
        return batch_of(batch.session, twin)
    return await add_batch(tx, tenant, head, batch)


async def add_batch(tx: Tx, tenant: str, head: Head, batch: NewBatch) -> Batch:
    """Queue a batch whose id and source key are known to be free; the caller saves the head."""
    row = new_row(batch, head.enqueued + 1, tx.now_us)
    if await tx.fresh(WORK.primary, [(head.number, row.seq)]) is not None:
        raise Corrupt("heads", batch.session, "enqueued", f"{head.enqueued}, less than was queued")
    head.enqueued = row.seq
    tx.insert(WORK, [stored(tx, head, row)])
    await raise_ready(tx, tenant, head, row)
    return batch_of(batch.session, row)


async def enqueue_in_commit(tx: Tx, commit: Commit) -> None:
    """Enqueue what a commit brings, here or in another session."""
    command = commit.command
    for batch in command.enqueue:
        if batch.session == command.session:
            await put_batch(tx, command.tenant, commit.head, batch)
        else:
            await _enqueue(tx, command.tenant, batch)
    commit.effects["enqueued"] = [[batch.session, batch.id] for batch in command.enqueue]


async def complete_claims(tx: Tx, head: Head, command: CommitTurn) -> None:
    """Settle claims inside a commit; a lost one rejects the whole commit."""
    queues: set[str] = set()
    for one in command.complete:
        rows = await claimed_rows(tx, head, one.claim)
        if not owns(rows, one.token, head):
            raise ClaimLost(command.session, one.claim)
        end(tx, (command.tenant, command.session), head, rows, "done", f"by turn {command.turn}")
        queues.update(row.queue for row in rows)
    await settle_queues(tx, head, queues)


async def claimed_rows(tx: Tx, head: Head, claim: str) -> list[WorkRow]:
    """What stands under a claim, of whatever generation, in the order it is claimed."""
    return [*await tx.scan(WORK_BY_CLAIM, head.number, claim)]


@handles(CancelWork)
async def cancel_work(tx: Tx, command: CancelWork) -> Batch | None:
    """Remove a batch that nobody works on."""
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return None
    check_alive(command.session, head)
    row = await tx.find(WORK_BY_ID, head.number, command.batch)
    if row is None or has_live_claim(row, head, tx.now_us):
        return None
    end(tx, (command.tenant, command.session), head, [row], "cancelled", command.reason)
    if row.waiting_for is None:
        await settle_queue(tx, head, row.queue)
    else:
        await settle_ready(tx, head)  # What stood behind it, in any queue, can be had again.
    return batch_of(command.session, row)


@handles(ListWork)
async def list_work(tx: Tx, query: ListWork) -> list[Batch]:
    """Everything queued; `pending`: what nobody works on."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    rows = await tx.scan(WORK.primary, head.number)
    if query.pending:
        rows = [row for row in rows if not has_live_claim(row, head, tx.now_us)]
    if query.order == "priority":
        rows.sort(key=lambda row: row.place)
    return [batch_of(query.session, row) for row in rows]
