"""Taking work from an event loop: what nobody waits for any more is handed back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from ledgerstone.api.commits import release
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.commands.work import AbandonClaim, TakeWork
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.work import Taken

# The loop keeps only weak references to tasks; a hand-back must finish even if nobody waits.
_finishing: set[asyncio.Task[None]] = set()


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


def finish(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that runs to its end."""
    task = asyncio.create_task(work)
    _finishing.add(task)
    task.add_done_callback(_finishing.discard)
    return task


async def settled() -> None:
    """Wait until everything that was to be handed back is: before an event loop ends."""
    if _finishing:
        await asyncio.wait(set(_finishing))


async def _undo(handle: AsyncHandle, task: asyncio.Task[Taken | None]) -> None:
    # What can not be handed back now comes back when the lease runs out.
    with suppress(LedgerstoneError):
        taken = await task
        if taken is not None:
            await hand_back(handle, taken)
