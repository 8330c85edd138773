"""Who may work on what: lost leases, how many at once, and handlers in threads."""

from __future__ import annotations

import asyncio
import threading

from ledgerstone import AsyncStore, Store
from ledgerstone.worker import BlockingContext, Context
from tests.worker.watched import Watched, on, queued, results, texts, until


def test_who_lost_the_session_stops_and_writes_nothing(url: str) -> None:
    """An operator breaks the lease while the handler runs; the next heartbeat tells."""
    stopped: list[bool] = []

    async def work(context: Context) -> None:
        if context.attempts > 1:
            context.turn.assistant("fresh")
            return
        context.turn.assistant("stale")
        await context.store.leases.break_(context.session, by="ops", reason="test")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    async def test(store: AsyncStore) -> None:
        await queued(store, "s")
        worker = Watched(store, work, ttl_s=0.3)
        await worker.run_until(lambda: "fenced" in worker.names)
        assert stopped == [True]
        assert worker.count() == {"taken": 2, "done": 1, "fenced": 1}
        assert await texts(store, "s") == ["fresh"]

    on(url, test)


def test_who_lost_the_session_can_not_commit(url: str) -> None:
    async def work(context: Context) -> None:
        context.turn.assistant("stale" if context.attempts == 1 else "fresh")
        if context.attempts == 1:
            await context.store.leases.break_(context.session, by="ops", reason="test")

    async def test(store: AsyncStore) -> None:
        await queued(store, "s")
        worker = Watched(store, work)
        await worker.run_until(lambda: {"done", "fenced"} <= {*worker.names})
        assert worker.count() == {"taken": 2, "fenced": 1, "done": 1}
        assert await texts(store, "s") == ["fresh"]

    on(url, test)


def test_no_more_handlers_than_concurrency_at_once(url: str) -> None:
    running = most = 0

    async def count(context: Context) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await until(lambda: most == 3)
        running -= 1

    async def test(store: AsyncStore) -> None:
        await queued(store, *(f"s{n}" for n in range(12)))
        assert await Watched(store, count, concurrency=3).run_until_idle() == 12
        assert most == 3

    on(url, test)


def test_one_session_is_served_by_one_handler_at_a_time(url: str) -> None:
    running: list[str] = []

    async def alone(context: Context) -> None:
        assert context.session not in running
        running.append(context.session)
        await asyncio.sleep(0.005)
        running.remove(context.session)
        context.turn.assistant(str(context.payloads[0]))

    async def test(store: AsyncStore) -> None:
        for name in ("a", "b"):
            await store.sessions.ensure(name)
            for n in range(5):
                await store.work.enqueue(name, n)
        worker = Watched(store, alone)
        assert await worker.run_until_idle() == 10
        assert set(worker.names) == {"taken", "done"}
        for name in ("a", "b"):
            assert await texts(store, name) == [str(n) for n in range(5)]

    on(url, test)


def test_a_plain_function_runs_in_a_thread_with_the_blocking_face(url: str) -> None:
    threads: set[str] = set()

    def work(context: BlockingContext) -> str:
        threads.add(threading.current_thread().name)
        assert isinstance(context.store, Store)
        context.turn.assistant(f"{len(context.store.messages.history(context.session))} before")
        return "result"

    async def test(store: AsyncStore) -> None:
        await queued(store, "a", "b")
        worker = Watched(store, work)
        assert await worker.run_until_idle() == 2
        assert await texts(store, "a") == ["0 before"]
        assert await results(store, "a") == ["result"]
        assert threads == {"ledgerstone-worker-a", "ledgerstone-worker-b"}
        assert worker.count() == {"taken": 2, "done": 2}

    on(url, test)


def test_a_plain_function_that_fails_and_one_that_hangs(url: str) -> None:
    release = threading.Event()

    def work(context: BlockingContext) -> None:
        if context.session == "bad":
            raise KeyError("x")
        release.wait(20)
        context.turn.assistant("too late" if context.stopping else "in time")

    async def test(store: AsyncStore) -> None:
        await queued(store, "bad", "slow", max_attempts=1)
        worker = Watched(store, work, timeout_s=0.1, concurrency=1)
        running = asyncio.create_task(worker.run())
        await until(lambda: worker.count()["buried"] == 2)
        await queued(store, "next", max_attempts=1)
        await asyncio.sleep(0.1)
        # The thread that nobody waits for is still one of the worker's.
        assert worker.count()["taken"] == 2
        release.set()
        await until(lambda: worker.count()["done"] == 1)
        worker.stop()
        await running
        assert await texts(store, "slow") == []
        assert await texts(store, "next") == ["in time"]

    on(url, test)
