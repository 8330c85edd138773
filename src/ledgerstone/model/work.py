"""The per-session queue: enqueue, claim, complete."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.codec import decode_json
from ledgerstone.commands.work import ClaimWork, EnqueueWork, ListWork
from ledgerstone.errors import ClaimLost, InvalidValue
from ledgerstone.model.rows import WorkRow
from ledgerstone.model.standing import Standing, find, require_alive
from ledgerstone.model.state import Tx
from ledgerstone.records.work import Batch, Claim
from ledgerstone.rules.guard import check_fence


def _to_batch(session: str, seq: int, row: WorkRow) -> Batch:
    payloads = [decode_json(payload) for payload in row.payloads]
    return Batch(session, row.id, seq, payloads, row.source_key, row.claim, row.enqueued_us)


def _queue(tx: Tx, number: int) -> list[tuple[int, WorkRow]]:
    return [(key[1], row) for key, row in tx.state.work.scan((number,))]


def enqueue_work(tx: Tx, command: EnqueueWork) -> Batch:
    """Queue a batch, unless its source key or its id is queued already."""
    found = require_alive(tx, command.tenant, command.session)
    queue = _queue(tx, found.number)
    twins = [at for at in queue if at[1].id == command.batch]
    if command.source_key is not None:
        twins += [at for at in queue if at[1].source_key == command.source_key]
    if twins:
        return _to_batch(found.id, *twins[0])
    seq = tx.state.next_number("work", found.number)
    row = WorkRow(
        id=command.batch,
        payloads=command.payloads,
        source_key=command.source_key,
        enqueued_us=tx.now_us,
    )
    tx.state.work.insert((found.number, seq), row)
    return _to_batch(found.id, seq, row)


def claim_work(tx: Tx, command: ClaimWork) -> Claim | None:
    """The oldest batch that nobody claimed under the current fence, or None."""
    if command.guard.fence is None:
        raise InvalidValue("lease", "work is claimed under a lease")
    found = require_alive(tx, command.tenant, command.session)
    check_fence(found.id, found.head, command.guard, tx.now_us)
    fence = found.head.fence
    queue = _queue(tx, found.number)
    mine = _owned(queue, command.claim, fence)
    if not mine:
        free = [at for at in queue if at[1].claim is None or at[1].claim_fence < fence]
        if not free:
            return None
        seq, row = free[0]
        row = replace(row, claim=command.claim, claim_fence=fence)
        tx.state.work.update((found.number, seq), row)
        mine = [(seq, row)]
    return Claim(found.id, command.claim, fence, [_to_batch(found.id, *at) for at in mine])


def _owned(queue: list[tuple[int, WorkRow]], claim: str, fence: int) -> list[tuple[int, WorkRow]]:
    return [at for at in queue if at[1].claim == claim and at[1].claim_fence == fence]


def complete(tx: Tx, standing: Standing, claim: str) -> None:
    """Remove the batches of a claim; ClaimLost unless it stands under the current fence."""
    batches = [at for at in _queue(tx, standing.number) if at[1].claim == claim]
    if not batches or any(row.claim_fence != standing.head.fence for _, row in batches):
        raise ClaimLost(standing.id, claim)
    for seq, _ in batches:
        tx.state.work.delete((standing.number, seq))


def list_work(tx: Tx, query: ListWork) -> list[Batch]:
    """All queued batches in order, claimed ones included."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return []
    return [_to_batch(found.id, *at) for at in _queue(tx, found.number)]
