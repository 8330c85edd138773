"""Grants of a lease: taking one, keeping it, taking it again when it lapsed, giving it back."""

from __future__ import annotations

import os

from ledgerstone import ids
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import pause
from ledgerstone.clock import monotonic_s
from ledgerstone.commands.leases import GetLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.sessions import GetHead
from ledgerstone.errors import Fenced, LeaseExpired, LeaseHeld
from ledgerstone.intake.checks import not_ended
from ledgerstone.records.leases import AnyLease, Held, Lease

POLL_FIRST_S = 0.02
POLL_MAX_S = 0.5
RECHECKS = 5
GENERATIONS = 8
"""How many consecutive re-grants of a lapsed lease are still recognised as the holder's own."""


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
        if not await _nobody_else_committed(handle, held):
            await release(handle, mine)
            raise
        held.lease = mine
    except LeaseExpired:
        if held.released:
            raise
        again = await retake(handle, held)
        if not await _nobody_else_committed(handle, held):
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


async def retake(handle: AsyncHandle, held: Held) -> Lease:
    """A new grant for a held lease that ran out; Fenced when somebody else was faster.

    LeaseExpired when the block has ended: after that, nothing takes the lease again.
    """
    not_ended(held)
    old = held.lease
    # Derived, so that a commit and a heartbeat that both find it expired get the same grant.
    token = ids.derive("again", old.token)
    lease = await handle.write(
        TakeLease(
            tenant=handle.tenant,
            session=old.session,
            owner=old.owner,
            token=token,
            ttl_us=held.ttl_us,
        )
    )
    if lease is None:
        raise Fenced(old.session, old.fence, old.fence + 1)
    held.granted = max(held.granted, lease.fence)
    if held.ended:
        # It ended after the look above, and gave back only what it knew of.
        await release(handle, lease)
    not_ended(held)
    return lease


async def own_grant(
    handle: AsyncHandle, held: Held, token: str | None, refused: Fenced
) -> Lease | None:
    """The live lease, when the holder itself took it again; None when it is a stranger's.

    A heartbeat and a commit may both find it expired. Who comes second meets the grant of the
    first and must not take it for a newer owner's. `token` is the one that was refused. When that
    grant has run out as well, it is taken once more; a lease that was broken is not.
    """
    lease = await handle.ask(GetLease(tenant=handle.tenant, session=held.session))
    if lease is None:
        return await retake(handle, held) if held.granted == refused.current else None
    ours = [*lineage(held.token), *lineage(token or held.token)]
    return lease if lease.token in ours else None


def lineage(token: str) -> list[str]:
    """The token of a grant and those of the grants that were taken again after it."""
    found = [token]
    for _ in range(GENERATIONS):
        found.append(ids.derive("again", found[-1]))
    return found


async def give_back(handle: AsyncHandle, held: Held) -> None:
    """Release what is held, also when a heartbeat or a commit took it again unseen."""
    if await release(handle, held):
        return
    left = await handle.ask(GetLease(tenant=handle.tenant, session=held.session))
    if left is not None and left.token in lineage(held.token):
        await release(handle, left)


async def release(handle: AsyncHandle, lease: AnyLease) -> bool:
    """Give a lease back; False when it was not ours any more."""
    grant = lease.lease if isinstance(lease, Held) else lease
    return await handle.write(
        ReleaseLease(
            tenant=handle.tenant,
            session=grant.session,
            owner=grant.owner,
            token=grant.token,
            fence=grant.fence,
        )
    )


async def revision_of(handle: AsyncHandle, session: str) -> int:
    """The revision a session stands at; 0 before its first commit."""
    head = await handle.ask(GetHead(tenant=handle.tenant, id=session))
    return 0 if head is None else head.revision


async def _nobody_else_committed(handle: AsyncHandle, held: Held) -> bool:
    """Whether only the holder committed; a commit of its own may be under way just now."""
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
