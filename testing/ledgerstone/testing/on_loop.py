"""A backend reached through its coroutines, by tests that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ledgerstone.commands import Command, Query
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend, Grouping
from ledgerstone.testing.wrappers import Wrapper

A = TypeVar("A")

ANSWER_WAIT_S = 120.0


class OnLoop(Wrapper):
    """Every blocking call becomes a coroutine on an event loop that runs in a thread of its own."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="on-loop", daemon=True)
        self._thread.start()

    def write(self, command: Command[A]) -> A:
        if self._loop.is_closed():
            return self.inner.write(command)
        return self._wait(self.inner.awrite(command))

    def write_many(self, commands: Sequence[Command[A]]) -> list[A | LedgerstoneError]:
        assert isinstance(self.inner, Grouping)
        if self._loop.is_closed():
            return self.inner.write_many(commands)
        return self._wait(self.inner.awrite_many(commands))

    async def awrite_many(self, commands: Sequence[Command[A]]) -> list[A | LedgerstoneError]:
        assert isinstance(self.inner, Grouping)
        return await self.inner.awrite_many(commands)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        if self._loop.is_closed():
            return self.inner.read(queries)
        return self._wait(self.inner.aread(queries))

    def changed(self, seen: int, timeout_s: float) -> int:
        if self._loop.is_closed():
            return self.inner.changed(seen, timeout_s)
        return self._wait(self.inner.achanged(seen, timeout_s))

    async def awrite(self, command: Command[A]) -> A:
        return await self.inner.awrite(command)

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return await self.inner.aread(queries)

    def close(self) -> None:
        self.inner.close()
        if self._loop.is_closed():
            return
        # One more round, in which what was closed from here is taken leave of.
        self._wait(asyncio.sleep(0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_WAIT_S)
        self._loop.close()

    def _wait(self, waited_for: Coroutine[Any, Any, A]) -> A:
        return asyncio.run_coroutine_threadsafe(waited_for, self._loop).result(ANSWER_WAIT_S)
