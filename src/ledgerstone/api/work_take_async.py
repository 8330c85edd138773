"""Taking work from an event loop: what nobody waits for any more is handed back."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ledgerstone.api.commits import release
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import finish
from ledgerstone.commands.work import AbandonClaim, TakeWork
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.work import Taken


async def send(handle: AsyncHandle, command: TakeWork) -> Taken | None:
    """Carry it out; a caller that is cancelled meanwhile leaves neither lease nor claim behind."""
    task = asyncio.create_task(handle.write(command))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        finish(_undo(handle, task))
        raise


async def hand_back(handle: AsyncHandle, taken: Taken) -> None:
    """As if it had not been taken: the attempt is not counted, the session is free."""
    claim = taken.claim
    try:
        await handle.write(
            AbandonClaim(
                tenant=handle.tenant, session=claim.session, claim=claim.id, token=claim.token
            )
        )
    finally:
        await release(handle, taken.lease)


async def _undo(handle: AsyncHandle, task: asyncio.Task[Taken | None]) -> None:
    # What can not be handed back now comes back when the lease runs out.
    with suppress(LedgerstoneError):
        taken = await task
        if taken is not None:
            await hand_back(handle, taken)
