"""Work for the length of a block: lease and claim are kept, and settled by how the block ends."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

from ledgerstone.api.acquiring import is_lost, keep, period_s
from ledgerstone.api.commits import give_back, revision_of
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.hold_async import is_set_within, turn_into_fenced
from ledgerstone.api.loop_async import finish
from ledgerstone.api.taking import Request, keep_claim, settle, take, wait_for_work
from ledgerstone.api.work_take_async import hand_back
from ledgerstone.clock import monotonic_s
from ledgerstone.errors import ClaimLost, LedgerstoneError, WorkInterrupted
from ledgerstone.records.leases import Held
from ledgerstone.records.work import Claim, Holding, Taken


class WorkHold:
    """Waits for work on entry. On exit what is left of the claim is settled, the lease released.

    A clean end and a cancellation hand the work back, an error counts as a failed attempt. When
    the lease is lost, the block is cancelled and ends with Fenced.
    """

    def __init__(
        self, handle: AsyncHandle, request: Request, *, wait_s: float | None, heartbeat: bool
    ) -> None:
        self._handle = handle
        self._request = request
        self._wait_s = wait_s
        self._heartbeat = heartbeat
        self._holding: tuple[Held, Claim] | None = None
        self._block: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._stop = asyncio.Event()
        self._heart: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Holding:
        taken = await wait_for_work(self._handle, self._request, self._wait_s)
        try:
            revision = await revision_of(self._handle, taken.lease.session)
        except BaseException:
            finish(hand_back(self._handle, taken))
            raise
        held, claim = self._holding = Held(taken.lease, self._request.ttl_us, revision), taken.claim
        if self._heartbeat:
            block = self._block = asyncio.current_task()
            assert block is not None, "a coroutine runs inside a task"
            self._cancelling = block.cancelling()
            self._heart = asyncio.create_task(self._beat(held, claim, block))
        return Holding(held, claim)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        assert self._holding is not None, "entered before left"
        held, claim = self._holding
        held.ended = True
        try:
            await asyncio.shield(finish(self._let_go(held, claim, error)))
        except LedgerstoneError:
            # The block's own error matters more; what was not given back runs out.
            if error is None:
                raise
        if held.lost is not None:
            turn_into_fenced(held, error, self._block, self._cancelling)

    async def _let_go(self, held: Held, claim: Claim, error: BaseException | None) -> None:
        if self._heart is not None:
            self._stop.set()
            await asyncio.wait((self._heart,))
        # A lost claim under a lease that was taken again leaves the lease to be given back.
        if held.lost is not None and not isinstance(held.lost, ClaimLost):
            return
        try:
            if held.lost is None or isinstance(held.lost, WorkInterrupted):
                await settle(self._handle, claim, error)
        finally:
            if not held.released:
                await give_back(self._handle, held)

    async def _beat(self, held: Held, claim: Claim, block: asyncio.Task[object]) -> None:
        period = delay = period_s(held)
        alive_s = monotonic_s()
        claimed = True
        while not await is_set_within(self._stop, delay) and not held.released:
            try:
                await keep(self._handle, held)
                claimed = claimed and await keep_claim(self._handle, held, claim)
                delay, alive_s = period, monotonic_s()
            except Exception as error:
                if is_lost(held, error, monotonic_s() - alive_s):
                    held.lost = error
                    block.cancel()
                    return
                delay = period / 4


class Taking:
    """Work that is being taken: await it for what there is now, or enter it and wait for some."""

    def __init__(self, handle: AsyncHandle, request: Request) -> None:
        self._handle = handle
        self._request = request
        self._hold: WorkHold | None = None

    def __await__(self) -> Generator[Any, None, Taken | None]:
        return take(self._handle, self._request).__await__()

    async def __aenter__(self) -> Holding:
        self._hold = WorkHold(self._handle, self._request, wait_s=None, heartbeat=True)
        return await self._hold.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        assert self._hold is not None, "entered before left"
        await self._hold.__aexit__(kind, error, trace)


def taking(handle: AsyncHandle, request: Request) -> Taking:
    """Take when it is awaited or entered."""
    return Taking(handle, request)
