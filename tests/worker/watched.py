"""A worker whose events are kept, and shorthands for what tests say often."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from ledgerstone import AsyncStore
from ledgerstone.worker import Worker

WAIT_S = 20.0


class Watched(Worker):
    """Remembers every event; `names` without the idle ones, which only time decides about."""

    def __init__(self, store: AsyncStore, handler: Any, **how: Any) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        how.setdefault("poll_s", 0.05)
        how.setdefault("handle_signals", False)
        super().__init__(store, handler, on_event=self._keep, **how)

    def _keep(self, name: str, fields: dict[str, Any]) -> None:
        self.events.append((name, fields))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.events if name != "idle"]

    def count(self) -> Counter[str]:
        return Counter(self.names)

    def told(self, name: str) -> list[dict[str, Any]]:
        return [fields for found, fields in self.events if found == name]

    async def run_until(self, ready: Callable[[], bool]) -> None:
        """Work until something is so, then stop; whoever waits too long fails."""
        running = asyncio.create_task(self.run())
        try:
            async with asyncio.timeout(WAIT_S):
                await until(lambda: ready() or running.done())
                self.stop()
                await running
        finally:
            running.cancel()


async def until(ready: Callable[[], bool]) -> None:
    """Wait until something is so."""
    for _ in range(round(WAIT_S / 0.005)):
        if ready():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen in time")


async def queued(store: AsyncStore, *sessions: str, **how: Any) -> None:
    """One piece of work for each session; its payload is the name of the session."""
    for name in sessions:
        await store.sessions.ensure(name)
        await store.work.enqueue(name, name, **how)


async def texts(store: AsyncStore, session: str) -> list[str]:
    return [message.text for message in await store.messages.history(session)]


async def results(store: AsyncStore, session: str) -> list[object]:
    """What handlers returned."""
    return [node.body async for node in store.nodes.iter(session, kind="work.result")]


def on(url: str, test: Callable[[AsyncStore], Awaitable[None]]) -> None:
    """Run a test on a store that is open, within the time a test may take."""

    async def run() -> None:
        async with await AsyncStore.open(url) as store, asyncio.timeout(WAIT_S):
            await test(store)

    asyncio.run(run())
