"""The per-session queue."""

from __future__ import annotations

from ledgerstone.codec import decode_json, encode_json
from ledgerstone.commands.work import ClaimWork, EnqueueWork, ListWork
from ledgerstone.errors import ClaimLost, Corrupt, InvalidValue
from ledgerstone.records.work import Batch, Claim
from ledgerstone.rules.guard import check_alive, check_fence
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.heads import find_head, need_head
from ledgerstone.sql.tx import Row, Tx


async def enqueue_work(tx: Tx, command: EnqueueWork) -> Batch:
    """Queue a batch once per id and, while queued, once per source key."""
    head = await need_head(tx, command.tenant, command.session)
    check_alive(command.session, head)
    found = await tx.pick("find_batch", number=head.number, id=command.batch)
    if not found and command.source_key is not None:
        found = await tx.pick("find_batch", number=head.number, source_key=command.source_key)
    if found:
        return _batch(command.session, found[0])
    payloads = encode_json([decode_json(data) for data in command.payloads], "payloads")
    seq = head.enqueued + 1
    batch = (command.batch, command.source_key, payloads)
    await tx.run("insert_batch", head.number, seq, *batch, tx.now_us)
    await tx.run("count_enqueued", head.number, seq)
    return _batch(command.session, (seq, *batch, None, tx.now_us))


async def claim_work(tx: Tx, command: ClaimWork) -> Claim | None:
    """Own the oldest free batch under a live lease."""
    if command.guard.fence is None:
        raise InvalidValue("lease", "work is claimed under a lease")
    head = await need_head(tx, command.tenant, command.session)
    check_alive(command.session, head)
    check_fence(command.session, head, command.guard, tx.now_us)
    owned = await tx.all("claimed_batches", head.number, command.claim)
    if not owned or owned[0][6] < head.fence:
        row = await tx.one("next_batch", head.number, head.fence)
        if row is None:
            return None
        await tx.run("claim_batch", head.number, row[0], command.claim, head.fence)
        owned = await tx.all("claimed_batches", head.number, command.claim)
        owned = [batch for batch in owned if batch[6] == head.fence]
    batches = [_batch(command.session, row) for row in owned]
    return Claim(command.session, command.claim, owned[0][6], batches)


async def complete_claims(tx: Tx, session: str, head: HeadRow, claims: tuple[str, ...]) -> None:
    """Settle claims inside a commit; a lost one rejects the whole commit."""
    for claim in claims:
        owned = await tx.all("claimed_batches", head.number, claim)
        if not owned or any(row[6] != head.fence for row in owned):
            raise ClaimLost(session, claim)
        await tx.run("complete_claim", head.number, claim)


async def list_work(tx: Tx, query: ListWork) -> list[Batch]:
    """Everything queued."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    return [_batch(query.session, row) for row in await tx.all("list_work", head.number)]


def _batch(session: str, row: Row) -> Batch:
    seq, id, source_key, payloads, claim, enqueued_us = row[:6]
    try:
        items = decode_json(payloads)
    except ValueError as error:
        raise Corrupt("work", str(seq), "payloads", str(error)) from None
    return Batch(session, id, seq, items, source_key, claim, enqueued_us)
