"""Getting, keeping and giving back a lease that somebody holds."""

from __future__ import annotations

import os

from ledgerstone import ids
from ledgerstone.api.commits import own_grant, release, retake, revision_of
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import pause
from ledgerstone.clock import US_PER_S, monotonic_s
from ledgerstone.commands.leases import GetLease, RenewLease, TakeLease
from ledgerstone.errors import Fenced, LeaseExpired, LeaseHeld, LedgerstoneError
from ledgerstone.records.leases import Held, Lease

POLL_FIRST_S = 0.02
POLL_MAX_S = 0.5
RECHECKS = 5


def request(tenant: str, session: str, owner: str, ttl_us: int) -> TakeLease:
    """The command for a fresh grant; its token makes it safe to repeat."""
    return TakeLease(tenant=tenant, session=session, owner=owner, token=ids.new_id(), ttl_us=ttl_us)


async def acquire(handle: AsyncHandle, command: TakeLease, wait_s: float) -> Held:
    """A fresh grant; LeaseHeld when another owner still lives after `wait_s`."""
    end_s = monotonic_s() + wait_s
    delay_s = POLL_FIRST_S
    while True:
        lease = await handle.write(command)
        if lease is not None:
            return Held(lease, command.ttl_us, await revision_of(handle, command.session))
        left_s = end_s - monotonic_s()
        if left_s <= 0:
            raise await _held_by(handle, command.session)
        # Jitter: two that wait for the same session must not ask in step.
        await pause(min(left_s, delay_s * (1 + os.urandom(1)[0] / 255) / 2))
        delay_s = min(delay_s * 2, POLL_MAX_S)


async def give_up(handle: AsyncHandle, command: TakeLease) -> None:
    """Undo an interrupted `acquire`: asking again tells what it was granted, if anything."""
    lease = await handle.write(command)
    if lease is not None:
        await release(handle, lease)


async def keep(handle: AsyncHandle, held: Held) -> None:
    """One heartbeat: renew, or take a lapsed lease again if nobody committed since.

    Fenced or LeaseExpired when it is gone for good.
    """
    lease = held.lease
    try:
        renewed = await handle.write(renewal(handle.tenant, lease, held.ttl_us))
        if held.lease.fence <= renewed.fence:
            held.lease = renewed
    except Fenced as fenced:
        # A commit that found it expired may have taken it again just before.
        mine = await own_grant(handle, held, lease.token, fenced)
        if mine is None:
            raise
        if not await _is_where_it_was(handle, held):
            await release(handle, mine)
            raise
        held.lease = mine
    except LeaseExpired:
        if held.released:
            raise
        again = await retake(handle, held)
        if not await _is_where_it_was(handle, held):
            await release(handle, again)
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


async def _is_where_it_was(handle: AsyncHandle, held: Held) -> bool:
    """Whether nobody but the holder committed; its own commit may be on the way just now."""
    for _ in range(RECHECKS):
        if await revision_of(handle, held.session) == held.revision:
            return True
        await pause(POLL_FIRST_S)
    return False


async def _held_by(handle: AsyncHandle, session: str) -> LeaseHeld:
    lease = await handle.ask(GetLease(tenant=handle.tenant, session=session))
    if lease is None:
        return LeaseHeld(session, "somebody who just left", 0)
    return LeaseHeld(session, lease.owner, lease.expires_us)
