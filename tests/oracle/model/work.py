"""The per-session queue: enqueue, cancel, list, and what a commit does to it."""

from __future__ import annotations

from ledgerstone.commands.work import CancelWork, Completion, EnqueueWork, ListWork, NewBatch
from ledgerstone.errors import ClaimLost
from ledgerstone.records.work import Batch
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.work import batch_of, has_live_claim, new_row, owns
from tests.oracle.model.commits import Commit
from tests.oracle.model.ready import raise_ready, settle_queue, settle_ready, settle_rows
from tests.oracle.model.rows import OutboxRow
from tests.oracle.model.standing import Standing, find, require_alive
from tests.oracle.model.state import Tx
from tests.oracle.model.work_rows import drop_row, put_row, queued, rows_by


def enqueue_work(tx: Tx, command: EnqueueWork) -> Batch:
    """Queue a batch once per id and, while queued, once per source key."""
    found = require_alive(tx, command.tenant, command.batch.session)
    return put_batch(tx, found, command.batch)


def put_batch(tx: Tx, standing: Standing, batch: NewBatch) -> Batch:
    """The batch as it is queued now, or was already; the session must be alive."""
    twins = rows_by(tx, standing.number, "id", batch.id)
    if not twins and batch.source_key is not None:
        twins = rows_by(tx, standing.number, "source", batch.source_key)
    if twins:
        return batch_of(standing.id, twins[0])
    row = new_row(batch, tx.state.next_number("work", standing.number), tx.now_us)
    put_row(tx, standing.number, row)
    raise_ready(tx, standing, row)
    return batch_of(standing.id, row)


def wake_session(tx: Tx, tenant: str, own: Standing | None, batch: NewBatch) -> None:
    """Enqueue a wake-up; a session that is gone or deleted does not hear it.

    `own` is the session whose commit it is: where it alone may change, the batch waits in its
    outbox.
    """
    found = own if own is not None and own.id == batch.session else None
    found = found or find(tx, tenant, batch.session)
    if found is not None and found.head.deleted_us is None:
        _send(tx, own, found, batch)


def enqueue_in_commit(commit: Commit) -> None:
    """Enqueue what a commit brings, here or in another session."""
    tx, command = commit.tx, commit.command
    for batch in command.enqueue:
        found = commit.standing
        if batch.session != command.session:
            found = require_alive(tx, command.tenant, batch.session)
        _send(tx, commit.standing, found, batch)
    commit.effects["enqueued"] = [[batch.session, batch.id] for batch in command.enqueue]


def _send(tx: Tx, own: Standing | None, target: Standing, batch: NewBatch) -> None:
    if tx.shared or own is None or own.id == target.id:
        put_batch(tx, target, batch)
        return
    n = tx.state.next_number("outbox", own.number)
    tx.state.outbox.insert((own.number, n), OutboxRow(tx.now_us, batch))


def complete(tx: Tx, standing: Standing, done: Completion) -> None:
    """Remove the batches of a claim; ClaimLost unless it owns them under the current fence."""
    rows = rows_by(tx, standing.number, "claim", done.claim)
    if not owns(rows, done.token, standing.head):
        raise ClaimLost(standing.id, done.claim)
    for row in rows:
        drop_row(tx, standing.number, row.seq)
    settle_rows(tx, standing, rows)


def cancel_work(tx: Tx, command: CancelWork) -> Batch | None:
    """Remove a batch that nobody works on."""
    found = find(tx, command.tenant, command.session)
    if found is None:
        return None
    check_alive(command.session, found.head)
    rows = rows_by(tx, found.number, "id", command.batch)
    if not rows or has_live_claim(rows[0], found.head, tx.now_us):
        return None
    drop_row(tx, found.number, rows[0].seq)
    if rows[0].waiting_for is None:
        settle_queue(tx, found, rows[0].queue)
    else:
        settle_ready(tx, found)  # What stood behind it, in any queue, can be had again.
    return batch_of(found.id, rows[0])


def list_work(tx: Tx, query: ListWork) -> list[Batch]:
    """Everything queued; `pending`: what nobody works on."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return []
    rows = queued(tx, found.number)
    if query.pending:
        rows = [row for row in rows if not has_live_claim(row, found.head, tx.now_us)]
    return [batch_of(found.id, row) for row in rows]
