"""Claims: owning batches for a while, taking a session with work, and what becomes of both."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TypeAlias

from msgspec.structs import replace

from ledgerstone.commands import work as commands
from ledgerstone.errors import ClaimLost, InvalidValue, SessionBindingMismatch, WorkInterrupted
from ledgerstone.handlers.executions import need_execution
from ledgerstone.handlers.heads import find_head, open_session, save_head
from ledgerstone.handlers.ready import (
    first_parked,
    next_ready,
    ready_rows,
    settle_claimed,
    settle_queues,
    settle_ready,
    settle_rows,
)
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.work import bury, claimed_rows, end, stored
from ledgerstone.records.work import Batch, Claim, Taken
from ledgerstone.rules import work as rules
from ledgerstone.rules.executions import is_decided
from ledgerstone.rules.guard import check_fence
from ledgerstone.tables.sessions import HEADS, SESSIONS, Head
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import READY, WORK, WORK_IN_ORDER, WORK_LATER, ReadyRow

Settling: TypeAlias = commands.AbandonClaim | commands.FailClaim | commands.ParkClaim

_FIRST_ROWS = 64
"""How many batches are looked at before more of them are."""


@handles(commands.ClaimWork)
async def claim_work(tx: Tx, command: commands.ClaimWork) -> Claim | None:
    if command.guard.fence is None:
        raise InvalidValue("lease", "work is claimed under a lease")
    head = await open_session(tx, command.tenant, command.session)
    check_fence(command.session, head, command.guard, tx.now_us)
    owned = await claimed_rows(tx, head, command.claim)
    owned = [row for row in owned if row.claim_fence == head.fence]
    if owned:
        return rules.claim_of(command.session, owned)
    wanted = rules.wanted_by(command)
    if not wanted.size:
        return None
    lines = await ready_rows(tx, head)
    choice = await choose_work(tx, head, wanted, lines)
    claim = None
    if wanted.fits(choice.group):
        claim = own(tx, head, choice.group, rules.new_claim(command, head.fence, tx.now_us))
    else:
        choice.group.clear()
    await settle_claimed(tx, head, choice, lines)
    return claim


async def choose_work(
    tx: Tx, head: Head, wanted: rules.Wanted, lines: Sequence[ReadyRow]
) -> rules.Choice:
    """The next group; batches on the way to it that had their attempts are buried.

    `lines` are the queues in which the session has work.
    """
    queues = [line.queue for line in lines if wanted.queue in (None, line.queue)]
    for queue in queues:
        await _promote(tx, head, queue)
    end = await first_parked(tx, head.number) if queues else None
    spent: list[rules.WorkRow] = []
    size = min(wanted.size, _FIRST_ROWS)
    while True:
        rows: list[rules.WorkRow] = []
        for queue in queues:
            rows += await _claimable(tx, head, queue, end, size)
        # The first of all queues are among the first of each.
        rows = sorted(rows, key=lambda row: row.place)[:size]
        choice = rules.choose(rows, wanted)
        for row in choice.spent:
            await _take_out(tx, wanted.of, head, row)
        spent += choice.spent
        if choice.ended or len(rows) < size:
            return rules.Choice(choice.group, spent)
        size *= 2


async def _take_out(tx: Tx, of: tuple[str, str], head: Head, row: rules.WorkRow) -> None:
    """Record a batch that is over."""
    if row.superseded is None:
        await bury(tx, of, head, row, rules.spent_reason(row))
    else:
        end(tx, of, head, [row], "superseded", row.superseded)


async def _promote(tx: Tx, head: Head, queue: str) -> None:
    """What has become available since somebody last looked joins the order of claims."""
    for row in await tx.scan(WORK_LATER, head.number, queue, before=(tx.now_us + 1,)):
        tx.put(WORK, replace(row, later=0))


async def _claimable(
    tx: Tx, head: Head, queue: str, end: tuple[int, int] | None, size: int
) -> list[rules.WorkRow]:
    """The first batches of a queue that can be claimed; `end`: priority and seq of a parked one."""
    found: list[rules.WorkRow] = []
    after, limit = None, size
    while True:
        page = await tx.scan(
            WORK_IN_ORDER, head.number, queue, 0, after=after, before=end, limit=limit
        )
        found += [
            row
            for row in page
            if row.available_us <= tx.now_us and rules.is_claimable(row, head.fence)
        ]
        if len(found) >= size or len(page) < limit:
            return found[:size]
        after, limit = page[-1].place, 2 * limit


def own(tx: Tx, head: Head, group: list[rules.WorkRow], claim: Claim) -> Claim:
    """Write the claim into the batches of a group."""
    rows = [rules.claimed(row, claim) for row in group]
    _store(tx, head, rows)
    return rules.claim_of(claim.session, rows)


def _store(tx: Tx, head: Head, rows: list[rules.WorkRow]) -> None:
    for row in rows:
        tx.put(WORK, stored(tx, head, row))


async def _put_back(
    tx: Tx, command: Settling, head: Head, rows: list[rules.WorkRow]
) -> list[rules.WorkRow]:
    """Queue batches again, but for those that were superseded in the meantime."""
    kept = [row for row in rows if row.superseded is None]
    _store(tx, head, kept)
    for row in rows:
        if row.superseded is not None:
            await _take_out(tx, (command.tenant, command.session), head, row)
    return kept


async def _need_owned(
    tx: Tx, command: commands.RenewClaim | commands.FailClaim | commands.ParkClaim
) -> tuple[Head, list[rules.WorkRow]]:
    """The head of a live session and what the claim owns there; ClaimLost when it does not."""
    head = await open_session(tx, command.tenant, command.session)
    rows = await claimed_rows(tx, head, command.claim)
    if not rules.owns(rows, command.token, head):
        raise ClaimLost(command.session, command.claim)
    return head, rows


@handles(commands.RenewClaim)
async def renew_claim(tx: Tx, command: commands.RenewClaim) -> Claim:
    head, rows = await _need_owned(tx, command)
    for row in rows:
        if row.superseded is not None:
            raise WorkInterrupted(command.session, command.claim, row.superseded)
    until_us = tx.now_us + command.ttl_us
    rows = [replace(row, claim_expires_us=max(row.claim_expires_us, until_us)) for row in rows]
    _store(tx, head, rows)
    return rules.claim_of(command.session, rows)


@handles(commands.AbandonClaim)
async def abandon_claim(tx: Tx, command: commands.AbandonClaim) -> bool:
    head = await find_head(tx, command.tenant, command.session)
    rows = [] if head is None else await claimed_rows(tx, head, command.claim)
    if head is None or not rules.owns(rows, command.token, head):
        return False
    await _put_back(tx, command, head, [rules.abandoned(row, command, tx.now_us) for row in rows])
    await settle_queues(tx, head, [row.queue for row in rows])
    return True


@handles(commands.FailClaim)
async def fail_claim(tx: Tx, command: commands.FailClaim) -> list[Batch]:
    head, rows = await _need_owned(tx, command)
    kept: list[rules.WorkRow] = []
    for row in rows:
        after = rules.failed(row, command, tx.now_us)
        if row.superseded is None and (command.bury or row.is_spent):
            await bury(tx, (command.tenant, command.session), head, after, after.last_error or "")
        else:
            kept.append(after)
    kept = await _put_back(tx, command, head, kept)
    await settle_queues(tx, head, [row.queue for row in rows])
    return [rules.batch_of(command.session, row) for row in kept]


@handles(commands.ParkClaim)
async def park_claim(tx: Tx, command: commands.ParkClaim) -> list[Batch]:
    head, rows = await _need_owned(tx, command)
    execution = await need_execution(tx, command.tenant, command.execution)
    if execution.session != command.session:
        raise SessionBindingMismatch(execution.session, command.session)
    rows = [rules.parked(row, execution.id, tx.now_us) for row in rows]
    if is_decided(execution):
        rows = [rules.woken(row, tx.now_us) for row in rows]
    rows = await _put_back(tx, command, head, rows)
    await settle_ready(tx, head)
    return [rules.batch_of(command.session, row) for row in rows]


@handles(commands.TakeWork)
async def take_work(tx: Tx, command: commands.TakeWork) -> Taken | None:
    for _ in range(rules.TAKE_ROUNDS if command.max_batches else 0):
        line = await next_ready(tx, command.tenant, command.queue)
        if line is None:
            return None
        head = await tx.get(HEADS, line.number)
        if head is None or head.deleted_us is not None:
            tx.delete(READY, line.number, line.queue)
            continue
        later = rules.later_us(line.due_us, head)
        if later > line.due_us:
            # It was held since it was put into the line: then it is due when that ends.
            tx.put(READY, replace(line, due_us=later))
            continue
        taken = await _take(tx, command, copy(head), line)
        if taken is not None:
            return taken
    return None


async def _take(tx: Tx, command: commands.TakeWork, head: Head, line: ReadyRow) -> Taken | None:
    row = await tx.get(SESSIONS, line.number)
    if row is None:
        tx.delete(READY, line.number, line.queue)
        return None
    granted = copy(head)
    claiming = rules.claiming_of(command, row.id)
    lease = rules.grant(granted, command, row.id, tx.now_us)
    choice = await choose_work(tx, granted, rules.wanted_by(claiming), [line])
    if not choice.group:
        await settle_rows(tx, head, [line])
        return None
    save_head(tx, granted)
    claim = own(tx, granted, choice.group, rules.new_claim(claiming, granted.fence, tx.now_us))
    await settle_claimed(tx, granted, choice, [line])
    return Taken(lease, claim)
