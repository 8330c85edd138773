"""Sending a commit: what a lost answer and a lapsed lease ask for."""

from __future__ import annotations

from msgspec.structs import force_setattr, replace

from ledgerstone import ids
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import pause
from ledgerstone.commands import Guard
from ledgerstone.commands.leases import GetLease, ReleaseLease, TakeLease
from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.errors import (
    AccessDenied,
    Fenced,
    LeaseExpired,
    NotADatabase,
    NotSupported,
    OutcomeUnknown,
    RevisionMoved,
    Unavailable,
)
from ledgerstone.intake.checks import not_ended
from ledgerstone.ports.backend import Joining
from ledgerstone.records.leases import AnyLease, Held, Lease
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.rules.chain import turn_hash
from ledgerstone.rules.outcomes import told

REPEATS_MAX = 3
REPEAT_PAUSE_S = 0.02
GENERATIONS = 8
"""So often in a row may a heartbeat and a commit take a lapsed lease again before they meet."""


def stamped(command: CommitTurn) -> CommitTurn:
    """The command with the hash of its content; it was made just now and nobody saw it yet."""
    force_setattr(command, "hash", turn_hash(command))
    return command


async def commit(handle: AsyncHandle, command: CommitTurn, lease: AnyLease | None) -> TurnCommitted:
    """Send it once, and once only in effect.

    After OutcomeUnknown the same turn is sent again, at most three times, unless the backend has
    done so until its deadline. After LeaseExpired a held lease is taken again, if nobody committed
    in between.
    """
    if not isinstance(lease, Held):
        try:
            return await handle.backend.awrite(command)
        except OutcomeUnknown as unknown:
            return await _repeat(handle, command, unknown)
    lease.released = command.release
    try:
        answer = await _commit_held(handle, command, lease)
    except BaseException as error:
        lease.released = False
        if lease.ended and isinstance(error, LeaseExpired) and not error.ended:
            raise LeaseExpired(lease.session, lease.fence, ended=True) from error
        raise
    lease.revision = max(lease.revision, answer.revision)
    return answer


async def join(
    handle: AsyncHandle, command: CommitTurn, lease: AnyLease | None, connection: object
) -> TurnCommitted:
    """Write it inside the caller's transaction, which alone decides what becomes of it.

    NotSupported where there are no such connections.
    """
    backend, name = handle.backend, handle.backend.capabilities.name
    if not isinstance(backend, Joining):
        raise NotSupported("connection=", name, "only a postgresql:// store can join one")
    answer = await backend.ajoin(command, connection)
    if isinstance(lease, Held):
        lease.released = command.release
        lease.revision = max(lease.revision, answer.revision)
    return answer


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


async def _commit_held(handle: AsyncHandle, command: CommitTurn, held: Held) -> TurnCommitted:
    try:
        return await handle.backend.awrite(command)
    except OutcomeUnknown as unknown:
        return await _repeat(handle, command, unknown)
    except LeaseExpired as expired:
        lease = await retake(handle, held)
        return await _commit_on_new_lease(handle, command, held, lease, expired)
    except Fenced as fenced:
        again = await own_grant(handle, held, command.guard.token, fenced)
        if again is None:
            raise
        return await _commit_on_new_lease(handle, command, held, again, fenced)


async def _commit_on_new_lease(
    handle: AsyncHandle,
    command: CommitTurn,
    held: Held,
    lease: Lease,
    refused: LeaseExpired | Fenced,
) -> TurnCommitted:
    """On a grant that may lapse as well before the commit arrives: then on another one."""
    seen = held.revision if command.guard.revision is None else command.guard.revision
    for _ in range(REPEATS_MAX):
        guard = Guard(lease.fence, lease.token, seen, command.guard.incarnation)
        try:
            answer = await handle.write(replace(command, guard=guard))
        except RevisionMoved as moved:
            await release(handle, lease)
            raise refused from moved
        except LeaseExpired:
            lease = await retake(handle, held)
        else:
            held.lease = lease
            return answer
    await release(handle, lease)
    raise refused


async def _repeat(
    handle: AsyncHandle, command: CommitTurn, unknown: OutcomeUnknown
) -> TurnCommitted:
    for attempt in range(1, REPEATS_MAX + 1):
        if unknown.spent:
            break
        await pause(REPEAT_PAUSE_S * attempt)
        try:
            return await handle.backend.awrite(command)
        except OutcomeUnknown as again:
            unknown = again
        except (Unavailable, AccessDenied, NotADatabase) as error:
            # The repeat was refused; of the first attempt this still says nothing.
            raise told(OutcomeUnknown(str(error)), command) from error
    raise told(unknown, command) from unknown
