"""The blocking twin of work_hold_async.py: a thread beats, a loss is refused at the commit."""

from __future__ import annotations

import threading
from typing import TypeAlias

from ledgerstone.api.work_take_blocking import hand_back
from ledgerstone.api_sync.acquiring import is_lost, keep, period_s
from ledgerstone.api_sync.commits import give_back, revision_of
from ledgerstone.api_sync.handle import Handle
from ledgerstone.api_sync.taking import Request, keep_claim, settle, take, wait_for_work
from ledgerstone.clock import monotonic_s
from ledgerstone.errors import ClaimLost, LedgerstoneError, WorkInterrupted
from ledgerstone.records.leases import Held
from ledgerstone.records.work import Claim, Holding, Taken

Taking: TypeAlias = Taken | None


class WorkHold:
    """Waits for work on entry. On exit what is left of the claim is settled, the lease released.

    A clean end and Ctrl-C hand the work back, an error counts as a failed attempt. A thread cannot
    interrupt the block: when the lease is lost, `lease.lost` says why and the next commit under it
    raises that.
    """

    def __init__(
        self, handle: Handle, request: Request, *, wait_s: float | None, heartbeat: bool
    ) -> None:
        self._handle = handle
        self._request = request
        self._wait_s = wait_s
        self._heartbeat = heartbeat
        self._holding: tuple[Held, Claim] | None = None
        self._stop = threading.Event()
        self._heart: threading.Thread | None = None

    def __enter__(self) -> Holding:
        taken = wait_for_work(self._handle, self._request, self._wait_s)
        try:
            revision = revision_of(self._handle, taken.lease.session)
        except BaseException:
            hand_back(self._handle, taken)
            raise
        held, claim = self._holding = Held(taken.lease, self._request.ttl_us, revision), taken.claim
        if self._heartbeat:
            self._heart = threading.Thread(
                target=self._beat, args=(held, claim), name=f"work {held.session}", daemon=True
            )
            self._heart.start()
        return Holding(held, claim)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        assert self._holding is not None, "entered before left"
        held, claim = self._holding
        held.ended = True
        self._stop.set()
        if self._heart is not None:
            self._heart.join()
        # A lost claim under a lease that was taken again leaves the lease to be given back.
        if held.lost is not None and not isinstance(held.lost, ClaimLost):
            return
        try:
            self._let_go(held, claim, error)
        except LedgerstoneError:
            # The block's own error matters more; what was not given back runs out.
            if error is None:
                raise

    def _let_go(self, held: Held, claim: Claim, error: BaseException | None) -> None:
        try:
            if held.lost is None or isinstance(held.lost, WorkInterrupted):
                settle(self._handle, claim, error)
        finally:
            if not held.released:
                give_back(self._handle, held)

    def _beat(self, held: Held, claim: Claim) -> None:
        period = delay = period_s(held)
        alive_s = monotonic_s()
        claimed = True
        while not self._stop.wait(delay) and not held.released:
            try:
                keep(self._handle, held)
                claimed = claimed and keep_claim(self._handle, held, claim)
                delay, alive_s = period, monotonic_s()
            except Exception as error:
                if is_lost(held, error, monotonic_s() - alive_s):
                    held.lost = error
                    return
                delay = period / 4


def taking(handle: Handle, request: Request) -> Taking:
    """Take now."""
    return take(handle, request)
