"""Waiting until something was committed to a PostgreSQL store, by this process or by another.

Commits of this process are told at once. Others are told by NOTIFY, which is a wake-up and nothing
else: it is sent after the answer, by a thread of its own and at most every few milliseconds, since
commits with a NOTIFY in them wait for one another. Nothing runs while nobody writes or waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from ledgerstone import ids
from ledgerstone.clock import monotonic_s
from ledgerstone.engines.changes import Changes
from ledgerstone.engines.postgres.drivers.errors import FOREIGN
from ledgerstone.engines.postgres.drivers.listener import READY_S, Listener
from ledgerstone.engines.postgres.drivers.pool import Pool
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.work import Claim, Taken
from ledgerstone.sql.catalogue import load
from ledgerstone.trampoline import run_now

PAUSE_S = 0.008
LONG_PAUSE_S = 0.25
"""Shortest and longest pause between two NOTIFYs of a process, in seconds; it grows while other
processes send enough of them."""
CROWD_PER_S = 100
"""Maximum NOTIFYs per second, of all processes together."""
UNHEARD_PAUSE_S = 0.2
"""Pause after a NOTIFY that nobody listened to, in seconds."""
IDLE_S = 5.0
SEND_TIMEOUT_S = 2.0
END_S = 5.0
CHANNEL_CHARS = 63
_NO_NEWS = (Taken, Claim)


class PostgresChanges(Changes):
    """`count` is moved by commits of this process, `_others` by the listener."""

    def __init__(self, pool: Pool, schema: str, *, pooled: bool) -> None:
        super().__init__()
        self._counting = threading.Lock()
        self._others = 0
        channel, name = f"ledgerstone.{schema}"[:CHANNEL_CHARS], ids.new_id()
        self._listener = Listener(self, pool.driver, None if pooled else channel, name)
        self._teller = Teller(pool, channel, name, lambda: self._listener.heard)

    def number(self) -> int:
        return self.count + self._others

    def tell(self) -> None:
        """Something was committed by this process."""
        with self._counting:
            self.count += 1
        if self._waiters:
            self._wake_all()
        self._teller.want()

    def tell_of(self, answer: object) -> None:
        """A command was answered; one that says "nothing" wakes nobody, and work that was taken is
        no news to those who wait for some."""
        if answer is None or answer is False or answer == []:
            return
        if not isinstance(answer, _NO_NEWS):
            self.tell()

    def hear(self) -> None:
        """Something may have been committed by another process."""
        with self._counting:
            self._others += 1
        if self._waiters:
            self._wake_all()

    def is_awaited(self) -> bool:
        return bool(self._waiters)

    def wait(self, seen: int, timeout_s: float) -> int:
        self._listener.want()
        if seen < 0 and not self._listener.ready.is_set():
            self.pause(self.number(), READY_S)
        return super().wait(seen, timeout_s)

    async def await_(self, seen: int, timeout_s: float) -> int:
        self._listener.want()
        if seen < 0 and not self._listener.ready.is_set():
            await self.apause(self.number(), READY_S)
        return await super().await_(seen, timeout_s)

    def close(self) -> None:
        """End every wait; what was committed last is still told to the others."""
        super().close()
        self._listener.end()
        self._teller.end()


class Teller:
    """Tells other processes, in a thread that ends by itself when there is nothing to tell."""

    def __init__(self, pool: Pool, channel: str, name: str, heard: Callable[[], int]) -> None:
        self._pool = pool
        self._heard = heard
        self._channel = channel
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pending = False
        self._woken = threading.Event()
        self._ending = threading.Event()

    def want(self) -> None:
        """There is something to tell. A commit pays for one look, mostly."""
        if self._pending:
            return
        with self._lock:
            self._pending = True
            self._woken.set()
            if self._thread is None and not self._ending.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="ledgerstone-tell", daemon=True
                )
                self._thread.start()

    def end(self) -> None:
        """Tell what is left to tell, and stop."""
        self._ending.set()
        self._woken.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(END_S)

    def _run(self) -> None:
        pause_s, count, then_s = PAUSE_S, self._heard(), monotonic_s()
        while self._has_more():
            is_heard = self._send()
            self._ending.wait(pause_s if is_heard else UNHEARD_PAUSE_S)
            now, now_s = self._heard(), monotonic_s()
            crowded = now - count > CROWD_PER_S * (now_s - then_s)
            pause_s = min(2 * pause_s, LONG_PAUSE_S) if crowded else max(pause_s / 2, PAUSE_S)
            count, then_s = now, now_s

    def _has_more(self) -> bool:
        """Sleep until there is something to tell; False when this thread is to end."""
        if not self._pending and not self._ending.is_set():
            self._woken.wait(IDLE_S)
        with self._lock:
            self._woken.clear()
            if not self._pending:
                self._thread = None
            return self._pending

    def _send(self) -> bool:
        """Whether anybody listens; what fails is made up for by the looks of the others."""
        # First this, then the NOTIFY: what is committed in between is told once more.
        self._pending = False
        with suppress(LedgerstoneError, *FOREIGN):
            text = load("postgres")["tell_others"].text
            told = (self._channel, self._name)
            rows = run_now(self._pool.fetch(text, told, SEND_TIMEOUT_S))
            return bool(rows[0][0])
        return False
