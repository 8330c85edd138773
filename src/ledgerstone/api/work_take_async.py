"""Taking work from an event loop: what nobody waits for any more is handed back."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ledgerstone.api.commits import release
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import finish
from ledgerstone.commands.work import AbandonClaim, TakeWork
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Grouping
from ledgerstone.records.work import Taken


async def send(handle: AsyncHandle, command: TakeWork) -> Taken | None:
    """Carry it out; a caller that is cancelled meanwhile leaves neither lease nor claim behind."""
    task = asyncio.create_task(handle.write(command))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        finish(_undo(handle, task))
        raise


async def send_many(
    handle: AsyncHandle, commands: list[TakeWork]
) -> list[Taken | LedgerstoneError]:
    """The same for several; who finds nothing is left out."""
    task = asyncio.create_task(_take_all(handle, commands))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        finish(_undo_all(handle, task))
        raise


async def _take_all(
    handle: AsyncHandle, commands: list[TakeWork]
) -> list[Taken | LedgerstoneError]:
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
    # What cannot be handed back now comes back when the lease runs out.
    with suppress(LedgerstoneError):
        taken = await task
        if taken is not None:
            await hand_back(handle, taken)


async def _undo_all(
    handle: AsyncHandle, task: asyncio.Task[list[Taken | LedgerstoneError]]
) -> None:
    for one in await task:
        if isinstance(one, Taken):
            with suppress(LedgerstoneError):
                await hand_back(handle, one)
