"""How a worker begins, waits and ends, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import AsyncStore, InvalidValue, Misuse, Store, StoreClosed
from ledgerstone.worker import Context, Worker
from tests.worker.watched import Watched, on, queued, texts, until


async def say(context: Context) -> None:
    context.turn.assistant("done")


def test_stopping_lets_handlers_finish(url: str) -> None:
    begun = asyncio.Event()
    flags: list[bool] = []

    async def work(context: Context) -> None:
        begun.set()
        await until(lambda: context.stopping)
        flags.append(context.stopping)
        context.turn.assistant("finished")

    async def test(store: AsyncStore) -> None:
        await queued(store, "a")
        worker = Watched(store, work, concurrency=2)
        running = asyncio.create_task(worker.run())
        await begun.wait()
        worker.stop()
        await running
        assert flags == [True]
        assert await texts(store, "a") == ["finished"]
        await queued(store, "b")
        assert await store.work.list("b") != []

    on(url, test)


@pytest.mark.parametrize("hurry", [False, True])
def test_what_is_not_done_in_time_is_handed_back(url: str, hurry: bool) -> None:
    begun = asyncio.Event()

    async def work(context: Context) -> None:
        begun.set()
        context.turn.assistant("lost")
        await asyncio.sleep(60)

    async def test(store: AsyncStore) -> None:
        await queued(store, "a")
        worker = Watched(store, work, grace_s=30 if hurry else 0.05)
        running = asyncio.create_task(worker.run())
        await begun.wait()
        worker.stop()
        if hurry:
            worker.stop()
        await running
        assert worker.names == ["taken", "abandoned"]
        batch = (await store.work.list("a"))[0]
        assert (batch.attempts, batch.claim) == (0, None)
        assert await store.leases.get("a") is None
        assert await texts(store, "a") == []

    on(url, test)


def test_a_cancelled_worker_hands_back_what_it_has(url: str) -> None:
    begun = asyncio.Event()

    async def work(context: Context) -> None:
        begun.set()
        await asyncio.sleep(60)

    async def test(store: AsyncStore) -> None:
        await queued(store, "a")
        running = asyncio.create_task(Watched(store, work).run())
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await store.work.list("a"))[0].attempts == 0
        assert await store.leases.get("a") is None

    on(url, test)


def test_work_that_leads_to_work_is_done_before_it_is_idle(url: str) -> None:
    async def count_down(context: Context) -> None:
        left = context.payloads[0]
        context.turn.assistant(str(left))
        if left:
            context.turn.enqueue(left - 1)

    async def test(store: AsyncStore) -> None:
        await store.sessions.ensure("s")
        await store.work.enqueue("s", 3)
        assert await Watched(store, count_down).run_until_idle() == 4
        assert await texts(store, "s") == ["3", "2", "1", "0"]

    on(url, test)


def test_an_idle_worker_is_woken_and_settles_tickets(url: str) -> None:
    async def work(context: Context) -> None:
        context.turn.assistant(str(context.payloads[0].get("wake")))

    async def test(store: AsyncStore) -> None:
        turn = store.turns.begin("s", create=True)
        turn.ask("c1", tool="pay", arguments={"eur": 1}, expires_s=0.05)
        await turn.commit()
        worker = Watched(store, work)
        await worker.run_until(lambda: "done" in worker.names)
        assert await texts(store, "s") == ["ticket"]
        assert worker.told("idle")

    on(url, test)


def test_watching_must_not_break_the_work(url: str) -> None:
    def broken(name: str, fields: dict[str, Any]) -> None:
        raise RuntimeError(name)

    async def test(store: AsyncStore) -> None:
        await queued(store, "s")
        worker = Worker(store, say, on_event=broken, handle_signals=False)
        assert await worker.run_until_idle() == 1

    on(url, test)


def test_a_worker_on_a_blocking_store(url: str) -> None:
    with Store.open(url) as store:
        store.sessions.ensure("s")
        store.work.enqueue("s", "s")
        worker: Worker

        async def once(context: Context) -> None:
            context.turn.assistant("done")
            worker.stop()

        worker = Worker(store, once, poll_s=0.05)
        worker.run_blocking()
        assert [one.text for one in store.messages.history("s")] == ["done"]


def test_a_store_that_is_closed_ends_the_worker(url: str) -> None:
    async def run() -> None:
        store = await AsyncStore.open(url)
        running = asyncio.create_task(Watched(store, say).run())
        await asyncio.sleep(0.05)
        await store.close()
        with pytest.raises(StoreClosed):
            await asyncio.wait_for(running, 10)

    asyncio.run(run())


def test_wrong_values_are_refused_when_it_is_made(url: str) -> None:
    async def test(store: AsyncStore) -> None:
        make: Callable[..., Worker] = Worker
        wrong: list[dict[str, Any]] = [
            {"concurrency": 0},
            {"queue": ""},
            {"ttl_s": 0},
            {"max_batches": 0},
            {"timeout_s": -1},
            {"grace_s": -1},
            {"poll_s": float("nan")},
            {"poll_s": 0},
            {"owner": 3},
        ]
        for given in wrong:
            with pytest.raises(InvalidValue):
                make(store, say, **given)
        with pytest.raises(InvalidValue):
            make(store, None)
        worker = Watched(store, say)
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(0.01)
        with pytest.raises(Misuse):
            await worker.run()
        worker.stop()
        await running

    on(url, test)
