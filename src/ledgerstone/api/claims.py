"""Claims on work: finding some, keeping the claim on it, and settling it in the end."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import msgspec

from ledgerstone import ids
from ledgerstone.api.grants import release
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import answer_or_undo, pause
from ledgerstone.clock import US_PER_S, monotonic_s
from ledgerstone.commands.work import (
    AbandonClaim,
    FailClaim,
    ListWork,
    ParkClaim,
    PeekWork,
    RenewClaim,
    TakeWork,
)
from ledgerstone.errors import (
    ClaimLost,
    ExecutionNotFound,
    ExecutionUnresolved,
    Fenced,
    LedgerstoneError,
    SessionBindingMismatch,
    Timeout,
    WorkInterrupted,
)
from ledgerstone.intake.work import error_text
from ledgerstone.ports.backend import Grouping
from ledgerstone.records.leases import Held
from ledgerstone.records.work import Claim, Taken

TakenList: TypeAlias = list[Taken]
POLL_S = 1.0
"""Maximum poll interval, in seconds: finds a change without a notice, or a lease that ran out."""
RACE_PAUSE_S = 0.01


class TakeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Whose work is wanted, by whom, for how long."""

    queue: str
    owner: str
    ttl_us: int
    max_batches: int


async def take(handle: AsyncHandle, request: TakeRequest) -> Taken | None:
    """A session with work and no owner, or None at once; an idle look only reads."""
    if not await _may_be_due(handle, request):
        return None
    return await _send(handle, request)


async def take_many(handle: AsyncHandle, request: TakeRequest, most: int) -> TakenList:
    """As many sessions as there are, at most `most`."""
    if not await _may_be_due(handle, request):
        return []
    commands = [_command(handle.tenant, request) for _ in range(most)]
    found = await answer_or_undo(_take_all(handle, commands), partial(_undo_all, handle))
    taken = [one for one in found if isinstance(one, Taken)]
    for one in found:
        # With something in hand, an error can wait until somebody asks for more.
        if isinstance(one, LedgerstoneError) and not taken:
            raise one
    return taken


async def _send(handle: AsyncHandle, request: TakeRequest) -> Taken | None:
    """Take; a caller that is cancelled meanwhile leaves neither lease nor claim behind."""
    taking = handle.write(_command(handle.tenant, request))
    return await answer_or_undo(taking, partial(_undo, handle))


async def _take_all(
    handle: AsyncHandle, commands: list[TakeWork]
) -> list[Taken | LedgerstoneError]:
    """What each of them takes; those that find nothing are left out."""
    if isinstance(handle.backend, Grouping):
        found = await handle.write_many(commands)
        return [one for one in found if one is not None]
    # Elsewhere they stand in one line anyway, and the first who finds nothing is the last to look.
    taken: list[Taken | LedgerstoneError] = []
    for command in commands:
        try:
            one = await handle.write(command)
        except LedgerstoneError as error:
            return [*taken, error]
        if one is None:
            break
        taken.append(one)
    return taken


async def _undo(handle: AsyncHandle, taken: Taken | LedgerstoneError | None) -> None:
    if isinstance(taken, Taken):
        await hand_back(handle, taken)


async def _undo_all(handle: AsyncHandle, found: list[Taken | LedgerstoneError]) -> None:
    for one in found:
        with suppress(LedgerstoneError):
            await _undo(handle, one)


async def hand_back(handle: AsyncHandle, taken: Taken) -> None:
    """Undo a take: the attempt is not counted, the session is free."""
    try:
        await handle.write(AbandonClaim(**named(handle.tenant, taken.claim)))
    finally:
        await release(handle, taken.lease)


def _looks_by_itself(handle: AsyncHandle) -> bool:
    """On a server, taking writes nothing when nothing is due, and a look would cost as much."""
    return handle.backend.capabilities.requires_network


async def wait_for_work(handle: AsyncHandle, request: TakeRequest, wait_s: float | None) -> Taken:
    """Take work as soon as there is some; Timeout after `wait_s` seconds, None waits for ever."""
    end_s = None if wait_s is None else monotonic_s() + wait_s
    seen = await handle.backend.achanged(-1, 0)
    race_s = RACE_PAUSE_S
    while True:
        taken, left_s = await _look(handle, request, end_s)
        if taken is not None:
            return taken
        if left_s <= 0:
            # Somebody else was faster, or it was less ready than it looked; on a server also: the
            # clock here is ahead of the one that counts, and would be for as long as it takes.
            left_s = race_s
            if _looks_by_itself(handle):
                race_s = min(2 * race_s, POLL_S)
            await pause(RACE_PAUSE_S)
        else:
            race_s = RACE_PAUSE_S
        if end_s is not None:
            left_s = min(left_s, end_s - monotonic_s())
            if left_s <= 0:
                raise Timeout(f"no work came to queue {request.queue!r} within {wait_s} s")
        seen = await handle.backend.achanged(seen, min(left_s, POLL_S))


async def _look(
    handle: AsyncHandle, request: TakeRequest, end_s: float | None
) -> tuple[Taken | None, float]:
    """Work that could be taken now, or in how many seconds there may be some."""
    on_server = _looks_by_itself(handle)
    if on_server:
        taken = await take(handle, request)
        if taken is not None or (end_s is not None and end_s <= monotonic_s()):
            return taken, POLL_S
    due_us = await _next_due_us(handle, request)
    left_s = POLL_S if due_us is None else (due_us - handle.clock.now_us()) / US_PER_S
    if left_s > 0 or on_server:
        return None, left_s
    return await _send(handle, request), left_s


async def keep_claim(handle: AsyncHandle, held: Held, claim: Claim) -> bool:
    """One heartbeat of a claim whose lease beats; False when there is nothing left to keep.

    ClaimLost when its batches may be somebody else's by now, WorkInterrupted when they were called
    off.
    """
    try:
        await handle.write(RenewClaim(ttl_us=held.ttl_us, **named(handle.tenant, claim)))
    except WorkInterrupted:
        raise
    except ClaimLost:
        # Under the fence of the claim only its own holder can have settled it.
        if held.fence == claim.fence or not await _any_queued(handle, claim):
            return False
        raise
    return True


async def settle(handle: AsyncHandle, claim: Claim, error: BaseException | None) -> None:
    """What is left of a claim when its block ends: parked or failed by an error, or handed back."""
    which = named(handle.tenant, claim)
    if isinstance(error, ExecutionUnresolved):
        # Of another session, or deleted since: then it is an error like any other.
        with suppress(ExecutionNotFound, SessionBindingMismatch):
            with suppress(ClaimLost):
                await handle.write(ParkClaim(execution=error.execution, **which))
            return
    if isinstance(error, Exception) and not isinstance(error, Fenced):
        # Lost here means: the block settled it itself before it failed.
        with suppress(ClaimLost):
            await handle.write(FailClaim(error=error_text(error), **which))
    else:
        await handle.write(AbandonClaim(**which))


def named(tenant: str, claim: Claim) -> dict[str, Any]:
    """The fields of a command by which it names a claim."""
    return {"tenant": tenant, "session": claim.session, "claim": claim.id, "token": claim.token}


def _command(tenant: str, request: TakeRequest) -> TakeWork:
    lease_token, claim, claim_token = ids.new_ids(3)
    return TakeWork(
        tenant=tenant,
        queue=request.queue,
        owner=request.owner,
        lease_token=lease_token,
        claim=claim,
        claim_token=claim_token,
        ttl_us=request.ttl_us,
        max_batches=request.max_batches,
    )


async def _may_be_due(handle: AsyncHandle, request: TakeRequest) -> bool:
    if _looks_by_itself(handle):
        return True
    due_us = await _next_due_us(handle, request)
    return due_us is not None and due_us <= handle.clock.now_us()


async def _next_due_us(handle: AsyncHandle, request: TakeRequest) -> int | None:
    return await handle.ask(PeekWork(tenant=handle.tenant, queue=request.queue))


async def _any_queued(handle: AsyncHandle, claim: Claim) -> bool:
    queued = await handle.ask(ListWork(tenant=handle.tenant, session=claim.session))
    return not {batch.id for batch in queued}.isdisjoint(batch.id for batch in claim.batches)
