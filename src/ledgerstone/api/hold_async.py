"""A lease for the length of a block; a task keeps it, and cancels the block when it is lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ledgerstone.api.acquiring import acquire, give_up, is_lost, keep, period_s, request
from ledgerstone.api.commits import give_back
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import finish
from ledgerstone.clock import monotonic_s
from ledgerstone.errors import Fenced, LedgerstoneError
from ledgerstone.records.leases import Held


def turn_into_fenced(
    held: Held, error: BaseException | None, block: asyncio.Task[object] | None, cancelling: int
) -> None:
    """The cancellation of a block that lost its lease leaves it as what it means."""
    ours = block is not None and block.uncancel() <= cancelling
    if error is None or (ours and isinstance(error, asyncio.CancelledError)):
        if isinstance(held.lost, Fenced):
            raise held.lost from error
        raise Fenced(held.session, held.fence, held.fence) from held.lost


async def is_set_within(stop: asyncio.Event, delay_s: float) -> bool:
    """Sleep, unless the block ends before. A heartbeat is not cancelled: one that is under way may
    take a lapsed lease again, and must know that it has to give that back.
    """
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), delay_s)
    return stop.is_set()


class Hold:
    """Takes a fresh fence on entry, gives it back on exit, also when the block is cancelled."""

    def __init__(
        self,
        handle: AsyncHandle,
        session: str,
        *,
        owner: str,
        ttl_us: int,
        wait_s: float,
        heartbeat: bool,
    ) -> None:
        self._handle = handle
        self._command = request(handle.tenant, session, owner, ttl_us)
        self._wait_s = wait_s
        self._heartbeat = heartbeat
        self._held: Held | None = None
        self._block: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._stop = asyncio.Event()
        self._heart: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Held:
        try:
            held = self._held = await acquire(self._handle, self._command, self._wait_s)
        except asyncio.CancelledError:
            # The grant may be on its way; nobody would ever give it back.
            finish(give_up(self._handle, self._command))
            raise
        if self._heartbeat:
            block = self._block = asyncio.current_task()
            assert block is not None, "a coroutine runs inside a task"
            self._cancelling = block.cancelling()
            self._heart = asyncio.create_task(self._beat(held, block))
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        held = self._held
        assert held is not None, "entered before left"
        held.ended = True
        try:
            await asyncio.shield(finish(self._let_go(held)))
        except LedgerstoneError:
            # The block's own error matters more; a lease that was not given back expires.
            if error is None:
                raise
        if held.lost is not None:
            turn_into_fenced(held, error, self._block, self._cancelling)

    async def _let_go(self, held: Held) -> None:
        if self._heart is not None:
            self._stop.set()
            await asyncio.wait((self._heart,))
        if held.lost is None and not held.released:
            await give_back(self._handle, held)

    async def _beat(self, held: Held, block: asyncio.Task[object]) -> None:
        period = delay = period_s(held)
        alive_s = monotonic_s()
        while not await is_set_within(self._stop, delay) and not held.released:
            try:
                await keep(self._handle, held)
                delay, alive_s = period, monotonic_s()
            except Exception as error:
                if is_lost(held, error, monotonic_s() - alive_s):
                    held.lost = error
                    block.cancel()
                    return
                delay = period / 4
