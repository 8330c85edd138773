"""Hearing of commits of other processes: one connection that listens, and looks now and then.

A look asks whether any transaction of the server ended. It makes up for a NOTIFY that was lost, for
an older transaction that ended after a younger one and told nobody, and behind a pooler, where
LISTEN does not work, it is all there is.
"""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from typing import Any, Protocol

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.drivers.errors import FOREIGN
from ledgerstone.engines.postgres.drivers.port import PgDriver
from ledgerstone.errors import LedgerstoneError
from ledgerstone.sql.catalogue import load
from ledgerstone.trampoline import run_now

LOOK_FIRST_S = 0.05
LOOK_LAST_S = 1.0
POOLED_LOOK_S = 0.1
"""Poll intervals in seconds: short after a wake-up, then doubled up to the longest."""
GAP_S = 0.02
"""Minimum pause between two wake-ups, in seconds: every waiter then looks at the database."""
IDLE_S = 30.0
READY_S = 2.0
CALL_TIMEOUT_S = 2.0
RECONNECT_FIRST_S = 0.1
RECONNECT_LAST_S = 2.0
END_S = 5.0


class Hearer(Protocol):
    """What a listener tells of commits."""

    def hear(self) -> None: ...

    def is_awaited(self) -> bool: ...


class Listener:
    """A thread with a connection, both there only while somebody waits.

    `ready`: from here on nothing is missed. When it becomes so everybody is woken once, since
    what happened before was not heard. `channel` None: look only.
    """

    def __init__(self, hearer: Hearer, driver: PgDriver, channel: str | None, name: str) -> None:
        self._hearer = hearer
        self._driver = driver
        self._channel = channel
        self._name = name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bell: tuple[socket.socket, socket.socket] | None = None
        self._asked_s = 0.0
        self._pause_s = RECONNECT_FIRST_S
        self._ending = threading.Event()
        self.ready = threading.Event()
        self.heard = 0
        """How many NOTIFYs of others came, ever."""

    def want(self) -> None:
        """Somebody waits, or is about to."""
        self._asked_s = monotonic_s()
        with self._lock:
            if self._thread is None and not self._ending.is_set():
                self._bell = socket.socketpair()
                self._thread = threading.Thread(
                    target=self._run, name="ledgerstone-listen", daemon=True
                )
                self._thread.start()

    def end(self) -> None:
        """Stop, and do not come again."""
        self._ending.set()
        with self._lock:
            thread = self._thread
            if self._bell is not None:
                self._bell[1].send(b".")
        if thread is not None:
            thread.join(END_S)

    def _run(self) -> None:
        while not self._may_leave():
            with suppress(LedgerstoneError, *FOREIGN):
                self._listen()
                continue
            # The connection is lost, or none could be made.
            self.ready.clear()
            self._ending.wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, RECONNECT_LAST_S)

    def _listen(self) -> None:
        """Until all is closed, or nobody waited for long."""
        connection: Any = run_now(self._driver.connect(READY_S))
        try:
            if self._channel is not None:
                run_now(connection.script(f'LISTEN "{self._channel}"', CALL_TIMEOUT_S))
                mark = load("postgres")["mark_listener"].text
                run_now(connection.fetch(mark, (self._channel,), CALL_TIMEOUT_S))
            seen = _look(connection)
            self._hearer.hear()
            self.ready.set()
            self._pause_s = RECONNECT_FIRST_S
            self._follow(connection, seen)
        finally:
            connection.drop()

    def _follow(self, connection: Any, seen: object) -> None:
        assert self._bell is not None
        longest_s = POOLED_LOOK_S if self._channel is None else LOOK_LAST_S
        pause_s = LOOK_FIRST_S
        told_s, look_s, late = 0.0, monotonic_s() + pause_s, False
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell[0], selectors.EVENT_READ)
            if self._channel is not None:
                selector.register(connection.raw.fileno(), selectors.EVENT_READ)
            while not self._ending.is_set() and not self._is_idle():
                next_s = min(look_s, told_s + GAP_S) if late else look_s
                selector.select(max(next_s - monotonic_s(), 0))
                late = self._has_heard(connection) or late
                if late and monotonic_s() >= told_s + GAP_S:
                    self._hearer.hear()
                    late, told_s, pause_s = False, monotonic_s(), LOOK_FIRST_S
                    look_s = min(look_s, told_s + pause_s)
                elif monotonic_s() >= look_s:
                    now = _look(connection)
                    if now != seen:
                        seen = now
                        self._hearer.hear()
                    pause_s = min(2 * pause_s, longest_s)
                    look_s = monotonic_s() + pause_s

    def _has_heard(self, connection: Any) -> bool:
        if self._channel is None:
            return False
        count: int = sum(name != self._name for name in connection.notices())
        self.heard += count
        return count > 0

    def _is_idle(self) -> bool:
        return not self._hearer.is_awaited() and monotonic_s() - self._asked_s > IDLE_S

    def _may_leave(self) -> bool:
        """Whether this thread ends; somebody may have come meanwhile."""
        with self._lock:
            if not self._is_idle() and not self._ending.is_set():
                return False
            self.ready.clear()
            for end in self._bell or ():
                end.close()
            self._thread, self._bell = None, None
            return True


def _look(connection: Any) -> object:
    """What is another value after anybody committed."""
    rows = run_now(connection.fetch(load("postgres")["snapshot_moved"].text, (), CALL_TIMEOUT_S))
    return rows[0][0]
