"""A lease, or work with its lease, for the length of a block: kept alive, settled at the end."""

from __future__ import annotations

from functools import partial

from ledgerstone.api.claims import TakeRequest, hand_back, keep_claim, settle, wait_for_work
from ledgerstone.api.grants import acquire, give_back, give_up, keep, revision_of
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import INTERRUPTED, Background, Signal, finish, finished
from ledgerstone.clock import US_PER_S, monotonic_s
from ledgerstone.commands.leases import TakeLease
from ledgerstone.errors import ClaimLost, Fenced, LedgerstoneError, WorkInterrupted
from ledgerstone.records.leases import Held
from ledgerstone.records.work import Claim, Holding


class AsyncHold:
    """What the holds below share: a heartbeat while the block runs, and its end.

    When the lease is lost, an async block is cancelled and ends with Fenced. A thread cannot
    interrupt a block: there `Held.lost` says why, and the next commit under the lease raises it.
    """

    def __init__(self, handle: AsyncHandle, *, heartbeat: bool) -> None:
        self._handle = handle
        self._heartbeat = heartbeat
        self._stop = Signal()
        self._heart: Background | None = None

    def _begin(self, held: Held) -> None:
        self._held = held
        if self._heartbeat:
            self._heart = Background(self._beat, f"lease {held.session}")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        held = self._held
        held.ended = True
        try:
            await finished(partial(self._end, error))
        except LedgerstoneError:
            # The block's own error matters more; a lease that was not given back expires.
            if error is None:
                raise
        if held.lost is not None and self._heart is not None and self._heart.ends_block(error):
            if isinstance(held.lost, Fenced):
                raise held.lost from error
            raise Fenced(held.session, held.fence, held.fence) from held.lost

    async def _end(self, error: BaseException | None) -> None:
        if self._heart is not None:
            self._stop.set()
            await self._heart.join()
        await self._give_back(error)

    async def _give_back(self, error: BaseException | None) -> None:
        if self._held.lost is None and not self._held.released:
            await give_back(self._handle, self._held)

    async def _keep(self) -> None:
        await keep(self._handle, self._held)

    async def _beat(self) -> bool:
        """Beat three times per lease until the block ends; True when the lease is lost."""
        held = self._held
        period_s = delay_s = held.ttl_us / US_PER_S / 3
        alive_s = monotonic_s()
        while not await self._stop.wait(delay_s) and not held.released:
            try:
                await self._keep()
                delay_s, alive_s = period_s, monotonic_s()
            except Exception as error:
                if _is_lost(held, error, monotonic_s() - alive_s > 3 * period_s):
                    held.lost = error
                    return True
                delay_s = period_s / 4
        return False


class AsyncLeaseHold(AsyncHold):
    """Takes a fresh fence on entry, gives it back on exit, also when the block is interrupted."""

    def __init__(
        self, handle: AsyncHandle, command: TakeLease, *, wait_s: float, heartbeat: bool
    ) -> None:
        super().__init__(handle, heartbeat=heartbeat)
        self._command = command
        self._wait_s = wait_s

    async def __aenter__(self) -> Held:
        try:
            held = await acquire(self._handle, self._command, self._wait_s)
        except INTERRUPTED:
            # The grant may be on its way; nobody would ever give it back.
            finish(partial(give_up, self._handle, self._command))
            raise
        self._begin(held)
        return held


class AsyncWorkHold(AsyncHold):
    """Waits for work on entry. On exit what is left of the claim is settled, the lease released.

    A clean end and an interruption hand the work back, an error counts as a failed attempt.
    """

    _claim: Claim

    def __init__(
        self, handle: AsyncHandle, request: TakeRequest, *, wait_s: float | None, heartbeat: bool
    ) -> None:
        super().__init__(handle, heartbeat=heartbeat)
        self._request = request
        self._wait_s = wait_s
        self._claimed = True

    async def __aenter__(self) -> Holding:
        taken = await wait_for_work(self._handle, self._request, self._wait_s)
        try:
            revision = await revision_of(self._handle, taken.lease.session)
        except BaseException:
            finish(partial(hand_back, self._handle, taken))
            raise
        self._claim = taken.claim
        held = Held(taken.lease, self._request.ttl_us, revision)
        self._begin(held)
        return Holding(held, taken.claim)

    async def _give_back(self, error: BaseException | None) -> None:
        lost = self._held.lost
        # A lost claim under a lease that was taken again leaves the lease to be given back.
        if lost is not None and not isinstance(lost, ClaimLost):
            return
        try:
            if lost is None or isinstance(lost, WorkInterrupted):
                await settle(self._handle, self._claim, error)
        finally:
            if not self._held.released:
                await give_back(self._handle, self._held)

    async def _keep(self) -> None:
        await super()._keep()
        self._claimed = self._claimed and await keep_claim(self._handle, self._held, self._claim)


def _is_lost(held: Held, error: Exception, is_over: bool) -> bool:
    """Whether a failed heartbeat is the end; what may succeed later is tried for one lease."""
    if held.released or held.ended:
        return False
    return is_over or not (isinstance(error, LedgerstoneError) and error.retryable)
