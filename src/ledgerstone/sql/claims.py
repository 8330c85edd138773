"""Claims: owning batches for a while, and what becomes of them."""

from __future__ import annotations

from typing import NamedTuple

from ledgerstone.commands.work import AbandonClaim, ClaimWork, FailClaim, ParkClaim, RenewClaim
from ledgerstone.errors import ClaimLost, InvalidValue, SessionBindingMismatch
from ledgerstone.records.work import Batch, Claim
from ledgerstone.rules.executions import is_decided
from ledgerstone.rules.guard import check_alive, check_fence
from ledgerstone.rules.parking import parked, woken
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.work import (
    Choice,
    Wanted,
    WorkRow,
    abandoned,
    batch_of,
    choose,
    claim_of,
    claimed,
    failed,
    new_claim,
    owns,
    spent_reason,
    wanted_by,
)
from ledgerstone.sql.dead_work import bury
from ledgerstone.sql.executions import need_execution
from ledgerstone.sql.heads import find_head, need_head
from ledgerstone.sql.ready import settle_claimed, settle_queues, settle_ready
from ledgerstone.sql.tx import Tx
from ledgerstone.sql.work import claimed_rows, free


async def claim_work(tx: Tx, command: ClaimWork) -> Claim | None:
    """Own the next group of batches under a live lease."""
    if command.guard.fence is None:
        raise InvalidValue("lease", "work is claimed under a lease")
    head = await need_head(tx, command.tenant, command.session)
    check_alive(command.session, head)
    check_fence(command.session, head, command.guard, tx.now_us)
    looks = await look(tx, head, command.claim)
    if any(look.has_claim for look in looks):
        owned = await claimed_rows(tx, head, command.claim)
        owned = [row for row in owned if row.claim_fence == head.fence]
        if owned:
            return claim_of(command.session, owned)
    wanted = wanted_by(command)
    if not wanted.size:
        return None
    choice = await choose_work(tx, head, wanted, looks)
    claim = None
    if wanted.fits(choice.group):
        claim = new_claim(command, head.fence, tx.now_us)
        claim = await own(tx, head, choice.group, claim)
    else:
        choice.group.clear()
    await settle_claimed(tx, head, choice)
    return claim


class Look(NamedTuple):
    """A queue of a session that is about to be claimed from."""

    queue: str
    is_ripe: int
    has_claim: int


async def look(tx: Tx, head: HeadRow, claim: str) -> list[Look]:
    """All queues of a session that have work."""
    return [Look(*row) for row in await tx.all("look_at_queues", head.number, claim, tx.now_us)]


async def choose_work(tx: Tx, head: HeadRow, wanted: Wanted, looks: list[Look]) -> Choice:
    """The next group; batches on the way to it that had their attempts are buried."""
    looks = [look for look in looks if wanted.queue in (None, look.queue)]
    for queue, is_ripe, _ in looks:
        if is_ripe:
            await tx.run("promote_work", head.number, queue, tx.now_us)
    spent: list[WorkRow] = []
    while True:
        rows: list[WorkRow] = []
        for queue, _, _ in looks:
            place = (head.number, queue, head.fence, tx.now_us, wanted.size)
            rows += [WorkRow(*row) for row in await tx.all("candidates", *place)]
        # The first of all queues are among the first of each.
        rows = sorted(rows, key=lambda row: row.place)[: wanted.size]
        choice = choose(rows, wanted)
        for row in choice.spent:
            await bury(tx, wanted.of, head, row, spent_reason(row))
        spent += choice.spent
        if choice.ended or len(rows) < wanted.size:
            return Choice(choice.group, spent)


async def own(tx: Tx, head: HeadRow, group: list[WorkRow], claim: Claim) -> Claim:
    """Write the claim into the batches of a group."""
    rows = [claimed(row, claim) for row in group]
    for row in rows:
        await tx.run(
            "claim_batch",
            head.number,
            row.id,
            row.attempts,
            row.claim,
            row.claim_fence,
            row.claim_token,
            row.claim_owner,
            row.claimed_us,
            row.claim_expires_us,
        )
    return claim_of(claim.session, rows)


async def renew_claim(tx: Tx, command: RenewClaim) -> Claim:
    """A later end for a claim that still owns its batches."""
    head = await need_head(tx, command.tenant, command.session)
    check_alive(command.session, head)
    if not owns(await claimed_rows(tx, head, command.claim), command.token, head):
        raise ClaimLost(command.session, command.claim)
    await tx.run("renew_claim", head.number, command.claim, tx.now_us + command.ttl_us)
    return claim_of(command.session, await claimed_rows(tx, head, command.claim))


async def abandon_claim(tx: Tx, command: AbandonClaim) -> bool:
    """Hand batches back, in place and uncounted; anything stale changes nothing."""
    head = await find_head(tx, command.tenant, command.session)
    rows = [] if head is None else await claimed_rows(tx, head, command.claim)
    if head is None or not owns(rows, command.token, head):
        return False
    for row in rows:
        await free(tx, head, abandoned(row, command, tx.now_us))
    await settle_queues(tx, head, [row.queue for row in rows])
    return True


async def fail_claim(tx: Tx, command: FailClaim) -> list[Batch]:
    """Batches come back after a pause, or are buried."""
    head = await need_head(tx, command.tenant, command.session)
    check_alive(command.session, head)
    rows = await claimed_rows(tx, head, command.claim)
    if not owns(rows, command.token, head):
        raise ClaimLost(command.session, command.claim)
    kept = []
    for row in rows:
        after = failed(row, command, tx.now_us)
        if command.bury or row.is_spent:
            of = (command.tenant, command.session)
            await bury(tx, of, head, after, after.last_error or "")
            continue
        await free(tx, head, after)
        kept.append(batch_of(command.session, after))
    await settle_queues(tx, head, [row.queue for row in rows])
    return kept


async def park_claim(tx: Tx, command: ParkClaim) -> list[Batch]:
    """Batches wait until the outcome of an execution is decided, unless it is already."""
    head = await need_head(tx, command.tenant, command.session)
    check_alive(command.session, head)
    rows = await claimed_rows(tx, head, command.claim)
    if not owns(rows, command.token, head):
        raise ClaimLost(command.session, command.claim)
    execution = await need_execution(tx, command.tenant, command.execution)
    if execution.session != command.session:
        raise SessionBindingMismatch(execution.session, command.session)
    rows = [parked(row, execution.id, tx.now_us) for row in rows]
    if is_decided(execution):
        rows = [woken(row, tx.now_us) for row in rows]
    for row in rows:
        if row.waiting_for is None:
            await free(tx, head, row)
            continue
        values = (row.available_us, row.attempts, row.claim, row.claim_fence, row.claimed_us)
        await tx.run("park_batch", head.number, row.id, *values)
    await settle_ready(tx, head)
    return [batch_of(command.session, row) for row in rows]
