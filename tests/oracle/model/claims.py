"""Claims: owning batches for a while, and what becomes of them."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands.work import AbandonClaim, ClaimWork, FailClaim, ParkClaim, RenewClaim
from ledgerstone.errors import ClaimLost, InvalidValue, SessionBindingMismatch
from ledgerstone.records.work import Batch, Claim
from ledgerstone.rules.executions import is_decided
from ledgerstone.rules.guard import check_fence
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
    is_behind,
    is_claimable,
    new_claim,
    owns,
    parked,
    spent_reason,
    wanted_by,
    woken,
)
from tests.oracle.model.dead_work import bury
from tests.oracle.model.executions import need_execution
from tests.oracle.model.ready import settle_ready, settle_rows
from tests.oracle.model.standing import Standing, find, require_alive
from tests.oracle.model.state import Tx
from tests.oracle.model.work_rows import in_order, parked_rows, put_row, rows_by


def claim_work(tx: Tx, command: ClaimWork) -> Claim | None:
    """Own the next group of batches under a live lease."""
    if command.guard.fence is None:
        raise InvalidValue("lease", "work is claimed under a lease")
    found = require_alive(tx, command.tenant, command.session)
    check_fence(found.id, found.head, command.guard, tx.now_us)
    owned = rows_by(tx, found.number, "claim", command.claim)
    owned = [row for row in owned if row.claim_fence == found.head.fence]
    if owned:
        return claim_of(found.id, owned)
    wanted = wanted_by(command)
    if not wanted.size:
        return None
    choice = choose_work(tx, found, wanted)
    claim = None
    if wanted.fits(choice.group):
        claim = new_claim(command, found.head.fence, tx.now_us)
        claim = own(tx, found, choice.group, claim)
    changed = choice.spent if claim is None else [*choice.spent, *choice.group]
    settle_rows(tx, found, changed)
    return claim


def choose_work(tx: Tx, standing: Standing, wanted: Wanted) -> Choice:
    """The next group; batches on the way to it that had their attempts are buried."""
    if wanted.queue is not None:
        queues = [wanted.queue]
    else:
        queues = [key[1] for key, _ in tx.state.ready.scan((standing.number,))]
    waiting = parked_rows(tx, standing.number)
    candidates = (
        row
        for row in in_order(tx, standing.number, queues)
        if row.available_us <= tx.now_us
        and is_claimable(row, standing.head.fence)
        and not is_behind(row, waiting)
    )
    choice = choose(candidates, wanted)
    for row in choice.spent:
        bury(tx, standing, row, spent_reason(row))
    return choice


def own(tx: Tx, standing: Standing, group: list[WorkRow], claim: Claim) -> Claim:
    """Write the claim into the batches of a group."""
    rows = [claimed(row, claim) for row in group]
    _store(tx, standing, rows)
    return claim_of(standing.id, rows)


def renew_claim(tx: Tx, command: RenewClaim) -> Claim:
    """A later end for a claim that still owns its batches."""
    found = require_alive(tx, command.tenant, command.session)
    rows = rows_by(tx, found.number, "claim", command.claim)
    if not owns(rows, command.token, found.head):
        raise ClaimLost(found.id, command.claim)
    until_us = tx.now_us + command.ttl_us
    rows = [replace(row, claim_expires_us=max(row.claim_expires_us, until_us)) for row in rows]
    _store(tx, found, rows)
    return claim_of(found.id, rows)


def abandon_claim(tx: Tx, command: AbandonClaim) -> bool:
    """Hand batches back, in place and uncounted; anything stale changes nothing."""
    found = find(tx, command.tenant, command.session)
    rows = [] if found is None else rows_by(tx, found.number, "claim", command.claim)
    if found is None or not owns(rows, command.token, found.head):
        return False
    _store(tx, found, [abandoned(row, command, tx.now_us) for row in rows])
    settle_rows(tx, found, rows)
    return True


def fail_claim(tx: Tx, command: FailClaim) -> list[Batch]:
    """Batches come back after a pause, or are buried."""
    found = require_alive(tx, command.tenant, command.session)
    rows = rows_by(tx, found.number, "claim", command.claim)
    if not owns(rows, command.token, found.head):
        raise ClaimLost(found.id, command.claim)
    kept = []
    for row in rows:
        after = failed(row, command, tx.now_us)
        if command.bury or row.is_spent:
            bury(tx, found, after, after.last_error or "")
        else:
            kept.append(after)
    _store(tx, found, kept)
    settle_rows(tx, found, rows)
    return [batch_of(found.id, row) for row in kept]


def park_claim(tx: Tx, command: ParkClaim) -> list[Batch]:
    """Batches wait until the outcome of an execution is decided, unless it is already."""
    found = require_alive(tx, command.tenant, command.session)
    rows = rows_by(tx, found.number, "claim", command.claim)
    if not owns(rows, command.token, found.head):
        raise ClaimLost(found.id, command.claim)
    execution = need_execution(tx, command.tenant, command.execution)
    if execution.session != found.id:
        raise SessionBindingMismatch(execution.session, found.id)
    rows = [parked(row, execution.id, tx.now_us) for row in rows]
    if is_decided(execution):
        rows = [woken(row, tx.now_us) for row in rows]
    _store(tx, found, rows)
    settle_ready(tx, found)
    return [batch_of(found.id, row) for row in rows]


def _store(tx: Tx, standing: Standing, rows: list[WorkRow]) -> None:
    for row in rows:
        put_row(tx, standing.number, row)
