# Generated from api/acquiring.py by tools/make_sync.py: edit that, then run `make sync`.
"""Getting, keeping and giving back a lease that somebody holds."""

from __future__ import annotations

import os

from ledgerstone import ids
from ledgerstone.api.loop_blocking import pause
from ledgerstone.api_sync.commits import own_grant, release, retake, revision_of
from ledgerstone.api_sync.handle import Handle
from ledgerstone.clock import US_PER_S, monotonic_s
from ledgerstone.commands.leases import GetLease, RenewLease, TakeLease
from ledgerstone.errors import Fenced, LeaseExpired, LeaseHeld, LedgerstoneError
from ledgerstone.records.leases import Held, Lease

POLL_FIRST_S = 0.02
POLL_MAX_S = 0.5
RECHECKS = 5


def request(tenant: str, session: str, owner: str, ttl_us: int) -> TakeLease:
    """The command for a fresh grant; its token makes it safe to repeat."""
    return TakeLease(
        tenant=tenant,
        session=session,
        owner=owner,
        token=ids.new_id(),
        ttl_us=ttl_us,
    )


def acquire(handle: Handle, command: TakeLease, wait_s: float) -> Held:
    """A fresh grant; LeaseHeld when another owner still lives after `wait_s`."""
    end_s = monotonic_s() + wait_s
    delay_s = POLL_FIRST_S
    while True:
        lease = handle.write(command)
        if lease is not None:
            return Held(lease, command.ttl_us, revision_of(handle, command.session))
        left_s = end_s - monotonic_s()
        if left_s <= 0:
            raise _held_by(handle, command.session)
        # Jitter: two that wait for the same session must not ask in step.
        pause(min(left_s, delay_s * (1 + os.urandom(1)[0] / 255) / 2))
        delay_s = min(delay_s * 2, POLL_MAX_S)


def give_up(handle: Handle, command: TakeLease) -> None:
    """Undo an interrupted `acquire`: asking again tells what it was granted, if anything."""
    lease = handle.write(command)
    if lease is not None:
        release(handle, lease)


def keep(handle: Handle, held: Held) -> None:
    """One heartbeat: renew, or take a lapsed lease again if nobody committed since.

    Fenced or LeaseExpired when it is gone for good.
    """
    lease = held.lease
    try:
        renewed = handle.write(renewal(handle.tenant, lease, held.ttl_us))
        if held.lease.fence <= renewed.fence:
            held.lease = renewed
    except Fenced as fenced:
        # A commit that found it expired may have taken it again just before.
        mine = own_grant(handle, held, lease.token, fenced)
        if mine is None:
            raise
        if not _is_where_it_was(handle, held):
            release(handle, mine)
            raise
        held.lease = mine
    except LeaseExpired:
        if held.released:
            raise
        again = retake(handle, held)
        if not _is_where_it_was(handle, held):
            release(handle, again)
            raise
        held.lease = again


def renewal(tenant: str, lease: Lease | Held, ttl_us: int) -> RenewLease:
    return RenewLease(
        tenant=tenant,
        session=lease.session,
        owner=lease.owner,
        token=lease.token,
        fence=lease.fence,
        ttl_us=ttl_us,
    )


def period_s(held: Held) -> float:
    """How often a heart beats: three times per lease."""
    return held.ttl_us / US_PER_S / 3


def is_lost(held: Held, error: Exception, silent_s: float) -> bool:
    """Whether a failed heartbeat is the end; what may succeed later is tried for one lease."""
    if held.released or held.ended:
        return False
    again = isinstance(error, LedgerstoneError) and error.retryable
    return not again or silent_s > 3 * period_s(held)


def _is_where_it_was(handle: Handle, held: Held) -> bool:
    """Whether nobody but the holder committed; its own commit may be on the way just now."""
    for _ in range(RECHECKS):
        if revision_of(handle, held.session) == held.revision:
            return True
        pause(POLL_FIRST_S)
    return False


def _held_by(handle: Handle, session: str) -> LeaseHeld:
    lease = handle.ask(GetLease(tenant=handle.tenant, session=session))
    if lease is None:
        return LeaseHeld(session, "somebody who just left", 0)
    return LeaseHeld(session, lease.owner, lease.expires_us)
