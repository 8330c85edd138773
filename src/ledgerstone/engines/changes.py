"""Waiting until something was committed in this process.

A commit pays for one addition and one look whether anybody waits. Nothing runs while nobody waits:
no thread, no task; a blocking waiter sleeps in its own thread, an async one is a future.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Changes:
    """A number that rises with every commit, and whoever waits for that."""

    def __init__(self) -> None:
        self.count = 0
        self.closed = False
        self._lock = threading.Lock()
        self._waiters: dict[object, Callable[[], object]] = {}

    def tell(self) -> None:
        """Something was committed; called by one thread at a time."""
        # First the number, then the look: a waiter does it the other way round, so one sees it.
        self.count += 1
        if self._waiters:
            self._wake_all()

    def close(self) -> None:
        """End every wait, and every later one at once."""
        self.closed = True
        self._wake_all()

    def number(self) -> int:
        """What changes with every commit."""
        return self.count

    def wait(self, seen: int, timeout_s: float) -> int:
        """The number, as soon as it is another one than `seen`; after the timeout as it is."""
        self.pause(seen, timeout_s)
        return self.number()

    async def await_(self, seen: int, timeout_s: float) -> int:
        """The same on an event loop."""
        await self.apause(seen, timeout_s)
        return self.number()

    def pause(self, seen: int, timeout_s: float) -> None:
        """Sleep until the number is another one, the time is over or all is closed."""
        if not self._may_sleep(seen):
            return
        event = threading.Event()
        self._add(event, event.set)
        try:
            if self._may_sleep(seen):
                event.wait(min(timeout_s, threading.TIMEOUT_MAX))
        finally:
            self._remove(event)

    async def apause(self, seen: int, timeout_s: float) -> None:
        """The same on an event loop."""
        import asyncio  # Here: a blocking program never needs it.

        if not self._may_sleep(seen):
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            with suppress(RuntimeError):  # The loop is closed: nobody sleeps there any more.
                loop.call_soon_threadsafe(_release, woken)

        self._add(woken, wake)
        timer = loop.call_later(timeout_s, _release, woken)
        try:
            if self._may_sleep(seen):
                await woken
        finally:
            timer.cancel()
            self._remove(woken)

    def _may_sleep(self, seen: int) -> bool:
        return not self.closed and self.number() == seen

    def _add(self, key: object, wake: Callable[[], object]) -> None:
        with self._lock:
            self._waiters[key] = wake

    def _remove(self, key: object) -> None:
        with self._lock:
            self._waiters.pop(key, None)

    def _wake_all(self) -> None:
        with self._lock:
            waiting = list(self._waiters.values())
        for wake in waiting:
            wake()


class WaitingForChanges(ABC):
    """The half of a backend that waits for commits."""

    _changes: Changes

    @abstractmethod
    def _check_usable(self) -> None:
        """StoreClosed when it is closed, or belongs to the parent of this process."""

    def changed(self, seen: int, timeout_s: float) -> int:
        """Wait for a commit."""
        self._check_usable()
        number = self._changes.wait(seen, timeout_s)
        self._check_usable()
        return number

    async def achanged(self, seen: int, timeout_s: float) -> int:
        """The same on an event loop."""
        self._check_usable()
        number = await self._changes.await_(seen, timeout_s)
        self._check_usable()
        return number


def _release(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
