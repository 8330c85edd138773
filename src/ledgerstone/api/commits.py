"""Sending a commit: what a lost answer and a lapsed lease ask for."""

from __future__ import annotations

from msgspec.structs import force_setattr, replace

from ledgerstone.api.grants import own_grant, release, retake
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import pause
from ledgerstone.commands import Guard
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
from ledgerstone.ports.backend import Joining
from ledgerstone.records.leases import AnyLease, Held, Lease
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.rules.chain import turn_hash
from ledgerstone.rules.outcomes import told

REPEATS_MAX = 3
REPEAT_PAUSE_S = 0.02


async def commit(handle: AsyncHandle, command: CommitTurn, lease: AnyLease | None) -> TurnCommitted:
    """Send it once, and once only in effect.

    After OutcomeUnknown the same turn is sent again, at most three times, unless the backend has
    done so until its deadline. After LeaseExpired a held lease is taken again, if nobody committed
    in between.
    """
    _stamp(command)
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
    _stamp(command)
    answer = await backend.ajoin(command, connection)
    if isinstance(lease, Held):
        lease.released = command.release
        lease.revision = max(lease.revision, answer.revision)
    return answer


def _stamp(command: CommitTurn) -> None:
    # With the hash of its content: it was made just now, and nobody saw it yet.
    force_setattr(command, "hash", turn_hash(command))


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
