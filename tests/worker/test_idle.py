"""A worker that has nothing to do waits: it says so once, and does not look again and again."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ledgerstone import AsyncStore
from ledgerstone.worker import BlockingContext, Context
from tests.worker.watched import Watched, on, queued, texts, until

BUSY_S = 0.6
LOOKS_MAX = 40
"""Far below what a loop without a pause makes of that time, far above what waiting needs."""


async def slow(context: Context) -> None:
    await asyncio.sleep(BUSY_S)
    context.turn.assistant("done")


def slow_blocking(context: BlockingContext) -> None:
    time.sleep(BUSY_S)
    context.turn.assistant("done")


class Counted(Watched):
    """Counts how often it looks for work."""

    looks = 0

    def _hold(self, wait_s: float) -> Any:
        self.looks += 1
        return super()._hold(wait_s)


@pytest.mark.parametrize("handler", [slow, slow_blocking], ids=["async", "blocking"])
def test_slots_beside_a_long_handler_wait_and_say_idle_once(url: str, handler: Any) -> None:
    async def test(store: AsyncStore) -> None:
        await queued(store, "s")
        worker = Counted(store, handler, poll_s=1.0)
        began_s = time.monotonic()
        assert await worker.run_until_idle() == 1
        assert time.monotonic() - began_s < BUSY_S + 0.9, "it ends with its last handler"
        assert await texts(store, "s") == ["done"]
        # Once beside the handler, and once after it.
        assert 1 <= len(worker.told("idle")) <= 2
        assert worker.looks <= LOOKS_MAX

    on(url, test)


def test_idle_is_said_once_per_idle_period(url: str) -> None:
    async def work(context: Context) -> None:
        context.turn.assistant("done")

    async def test(store: AsyncStore) -> None:
        worker = Watched(store, work, poll_s=0.01)
        running = asyncio.create_task(worker.run())
        for n in range(1, 3):
            await until(lambda: len(worker.told("idle")) == n)  # noqa: B023
            await asyncio.sleep(0.1)
            assert len(worker.told("idle")) == n
            await queued(store, f"s{n}")
            await until(lambda: worker.count()["done"] == n)  # noqa: B023
        worker.stop()
        await running

    on(url, test)


def test_a_handler_may_wait_for_work_that_it_enqueued(url: str) -> None:
    """A neighbour takes it while the first one still runs, long before it would look by itself."""

    async def work(context: Context) -> None:
        if context.session == "parent":
            await asyncio.sleep(0.1)
            await queued(context.store, "child")
            await until(lambda: "child" in done)
        done.append(context.session)

    done: list[str] = []

    async def test(store: AsyncStore) -> None:
        await queued(store, "parent")
        worker = Counted(store, work, poll_s=10.0)
        assert await worker.run_until_idle() == 2
        assert done == ["child", "parent"]
        assert worker.looks <= LOOKS_MAX

    on(url, test)


def test_an_empty_queue_ends_at_once(url: str) -> None:
    async def test(store: AsyncStore) -> None:
        worker = Counted(store, slow, poll_s=10.0)
        assert await worker.run_until_idle() == 0
        assert len(worker.told("idle")) == 1

    on(url, test)
