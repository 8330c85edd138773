"""The blocking twin of hold_async.py: a thread beats, and a lost lease is refused at the commit."""

from __future__ import annotations

import threading

from ledgerstone.api_sync.acquiring import acquire, give_up, is_lost, keep, period_s, request
from ledgerstone.api_sync.commits import give_back
from ledgerstone.api_sync.handle import Handle
from ledgerstone.clock import monotonic_s
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.leases import Held


class Hold:
    """Takes a fresh fence on entry and gives it back on exit.

    A thread cannot interrupt the block: when the lease is lost, `held.lost` says why and the
    next commit under it raises that.
    """

    def __init__(
        self,
        handle: Handle,
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
        self._stop = threading.Event()
        self._heart: threading.Thread | None = None

    def __enter__(self) -> Held:
        try:
            held = self._held = acquire(self._handle, self._command, self._wait_s)
        except KeyboardInterrupt:
            # The grant may have been made; nobody would ever give it back.
            give_up(self._handle, self._command)
            raise
        if self._heartbeat:
            self._heart = threading.Thread(
                target=self._beat, args=(held,), name=f"lease {held.session}", daemon=True
            )
            self._heart.start()
        return held

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        held = self._held
        assert held is not None, "entered before left"
        held.ended = True
        self._stop.set()
        if self._heart is not None:
            self._heart.join()
        if held.lost is not None or held.released:
            return
        try:
            give_back(self._handle, held)
        except LedgerstoneError:
            # The block's own error matters more; a lease that was not given back expires.
            if kind is None:
                raise

    def _beat(self, held: Held) -> None:
        period = delay = period_s(held)
        alive_s = monotonic_s()
        while not self._stop.wait(delay) and not held.released:
            try:
                keep(self._handle, held)
                delay, alive_s = period, monotonic_s()
            except Exception as error:
                if is_lost(held, error, monotonic_s() - alive_s):
                    held.lost = error
                    return
                delay = period / 4
