"""Taking and holding work from an event loop: waiting, losing, being cancelled, staying quiet."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import AsyncStore, ClaimLost, Fenced, Store, Timeout, Unavailable
from ledgerstone.clock import SystemClock
from ledgerstone.commands import Command
from ledgerstone.commands.work import RenewClaim, TakeWork
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.records.work import Taken
from ledgerstone.testing.wrappers import Wrapper

SHORT_S = 0.15


class Watched(Wrapper):
    """Counts what is written; a take may be slow."""

    def __init__(self) -> None:
        super().__init__(open_memory(None, SystemClock()))
        self.written: list[str] = []
        self.slow_s = 0.0

    def write(self, command: Command[Any]) -> Any:
        self.written.append(type(command).__name__)
        return self.inner.write(command)

    async def awrite(self, command: Command[Any]) -> Any:
        answer = self.write(command)
        if isinstance(command, TakeWork):
            await asyncio.sleep(self.slow_s)
        return answer


async def opened(*payloads: object) -> AsyncStore:
    store = await AsyncStore.open("memory://")
    await store.sessions.create(id="s")
    for payload in payloads:
        await store.work.enqueue("s", payload)
    return store


async def state(store: AsyncStore) -> list[tuple[object, int, str | None]]:
    return [(b.claim, b.attempts, b.last_error) for b in await store.work.list("s")]


class TestTaking:
    def test_awaited_it_answers_at_once(self) -> None:
        async def main() -> None:
            async with await opened("one") as store:
                taken = await store.work.take(owner="w")
                assert isinstance(taken, Taken)
                lease, claim = taken
                assert (lease.owner, claim.payloads) == ("w", ["one"])
                assert await store.work.take() is None

        asyncio.run(main())

    def test_entered_it_waits_and_keeps(self) -> None:
        async def main() -> None:
            async with await opened() as store:

                async def bring() -> None:
                    await asyncio.sleep(0.05)
                    await store.work.enqueue("s", "late")

                bringing = asyncio.create_task(bring())
                async with store.work.take(owner="w") as (lease, claim):
                    assert (lease.session, claim.payloads) == ("s", ["late"])
                    turn = store.turns.begin(lease)
                    turn.complete(claim)
                    await turn.commit()
                await bringing
                assert await store.work.list("s") == []
                assert await store.leases.get("s") is None

        asyncio.run(main())

    def test_an_idle_look_writes_nothing(self) -> None:
        async def main() -> None:
            backend = Watched()
            async with AsyncStore(backend) as store:
                await store.sessions.create(id="s")
                await store.work.enqueue("s", 1, delay_s=60)
                backend.written.clear()
                assert await store.work.take() is None
                assert await store.work.take(queue="other") is None
                with pytest.raises(Timeout):
                    await store.work.hold(wait_s=0.05).__aenter__()
                assert backend.written == []

        asyncio.run(main())

    @pytest.mark.parametrize("way", ["await", "hold"])
    def test_cancelled_while_it_takes_it_leaves_nothing_behind(self, way: str) -> None:
        async def main() -> None:
            backend = Watched()
            async with AsyncStore(backend) as store:
                await store.sessions.create(id="s")
                await store.work.enqueue("s", 1)
                backend.slow_s = 0.1

                async def worker() -> None:
                    if way == "await":
                        await store.work.take()
                    else:
                        async with store.work.hold():
                            pass

                task = asyncio.create_task(worker())
                await asyncio.sleep(0.03)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.sleep(0.2)
                assert "TakeWork" in backend.written
                assert await store.leases.get("s") is None
                assert await state(store) == [(None, 0, None)]

        asyncio.run(main())


class TestTakingMany:
    def test_an_idle_look_writes_nothing(self) -> None:
        async def main() -> None:
            backend = Watched()
            async with AsyncStore(backend) as store:
                await store.sessions.create(id="s")
                await store.work.enqueue("s", 1, delay_s=60)
                backend.written.clear()
                assert await store.work.take_many(5) == []
                assert backend.written == []

        asyncio.run(main())

    def test_cancelled_while_it_takes_it_leaves_nothing_behind(self) -> None:
        async def main() -> None:
            backend = Watched()
            async with AsyncStore(backend) as store:
                for name in "abc":
                    await store.sessions.create(id=name)
                    await store.work.enqueue(name, 1)
                backend.slow_s = 0.05
                task = asyncio.create_task(store.work.take_many(3))
                await asyncio.sleep(0.07)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await asyncio.sleep(0.3)
                assert backend.written.count("TakeWork") == 3
                for name in "abc":
                    assert await store.leases.get(name) is None
                    (batch,) = await store.work.list(name)
                    assert (batch.claim, batch.attempts) == (None, 0)

        asyncio.run(main())

    def test_an_error_in_the_middle_keeps_what_was_taken(self) -> None:
        class Failing(Watched):
            def write(self, command: Command[Any]) -> Any:
                if isinstance(command, TakeWork) and self.written.count("TakeWork") == 2:
                    raise Unavailable("gone for a moment")
                return super().write(command)

        async def main() -> None:
            async with AsyncStore(Failing()) as store:
                for name in "abc":
                    await store.sessions.create(id=name)
                    await store.work.enqueue(name, 1)
                assert len(await store.work.take_many(3)) == 2
                with pytest.raises(Unavailable):
                    await store.work.take_many(1)

        asyncio.run(main())


class TestHolding:
    def test_waiting_ends_with_work_or_with_timeout(self) -> None:
        async def main() -> None:
            async with await opened() as store:
                with pytest.raises(Timeout):
                    await store.work.hold(wait_s=0.05).__aenter__()
                started = time.monotonic()
                entering = asyncio.create_task(store.work.hold(wait_s=10).__aenter__())
                await asyncio.sleep(0.05)
                await store.work.enqueue("s", 1)
                lease, _ = await entering
                assert lease.session == "s"
                assert time.monotonic() - started < 5

        asyncio.run(main())

    def test_delayed_work_wakes_the_waiter_when_it_is_due(self) -> None:
        async def main() -> None:
            async with await opened() as store:
                await store.work.enqueue("s", 1, delay_s=0.1)
                started = time.monotonic()
                async with store.work.hold(wait_s=10):
                    assert 0.08 < time.monotonic() - started < 0.9

        asyncio.run(main())

    def test_lease_and_claim_are_kept_alive(self) -> None:
        async def main() -> None:
            async with await opened(1) as store, store.work.hold(ttl_s=SHORT_S) as (lease, claim):
                await asyncio.sleep(3 * SHORT_S)
                assert await store.leases.get("s") is not None
                (batch,) = await store.work.list("s")
                assert batch.claim_expires_us > claim.expires_us
                turn = store.turns.begin(lease)
                turn.complete(claim)
                await turn.commit()

        asyncio.run(main())

    def test_a_block_may_go_on_after_its_work_is_done(self) -> None:
        async def main() -> None:
            async with await opened(1) as store:
                async with store.work.hold(ttl_s=SHORT_S) as (lease, claim):
                    turn = store.turns.begin(lease)
                    turn.complete(claim)
                    await turn.commit()
                    await asyncio.sleep(3 * SHORT_S)
                    assert await store.leases.get("s") is not None
                assert await store.leases.get("s") is None

        asyncio.run(main())

    def test_a_lost_lease_cancels_the_block(self) -> None:
        async def main() -> None:
            async with await opened(1) as store:

                async def robbed() -> None:
                    async with store.work.hold(ttl_s=SHORT_S):
                        await store.leases.break_("s", by="ada", reason="test")
                        assert await store.work.take(owner="bob") is not None
                        await asyncio.sleep(30)

                started = time.monotonic()
                with pytest.raises(Fenced):
                    await asyncio.wait_for(robbed(), 20)
                assert time.monotonic() - started < 10
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0
                survivor = await store.leases.get("s")
                assert survivor is not None
                assert survivor.owner == "bob"
                ((claim, attempts, error),) = await state(store)
                assert claim is not None
                assert (attempts, error) == (2, None)

        asyncio.run(main())

    def test_a_machine_that_slept_has_lost_its_claim(self) -> None:
        """The lease is taken again, but the work was free meanwhile: it must not be settled."""

        async def main() -> None:
            async with await opened(1) as store:

                async def sleeper() -> None:
                    async with store.work.hold(ttl_s=SHORT_S):
                        await asyncio.sleep(0)
                        time.sleep(2 * SHORT_S)  # The loop itself stands still.
                        await asyncio.sleep(30)

                with pytest.raises(ClaimLost):
                    await asyncio.wait_for(sleeper(), 5)
                assert await store.leases.get("s") is None
                taken = await store.work.take()
                assert taken is not None

        asyncio.run(main())

    def test_a_cancellation_hands_the_work_back(self) -> None:
        async def main() -> None:
            async with await opened(1) as store:
                inside = asyncio.Event()

                async def request() -> None:
                    async with store.work.hold():
                        inside.set()
                        await asyncio.sleep(30)

                task = asyncio.create_task(request())
                await inside.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert await store.leases.get("s") is None
                assert await state(store) == [(None, 0, None)]

        asyncio.run(main())

    def test_an_error_is_a_failed_attempt(self) -> None:
        async def main() -> None:
            async with await opened(1) as store:
                with pytest.raises(ValueError, match="boom"):
                    async with store.work.hold():
                        raise ValueError("boom")
                assert await state(store) == [(None, 1, "ValueError: boom")]
                assert await store.leases.get("s") is None

        asyncio.run(main())

    def test_who_lost_something_else_has_not_failed(self) -> None:
        async def main() -> None:
            async with await opened(1) as store:
                with pytest.raises(Fenced):
                    async with store.work.hold():
                        raise Fenced("another", 1, 2)
                assert await state(store) == [(None, 0, None)]

        asyncio.run(main())

    def test_without_a_heart_nothing_beats(self) -> None:
        async def main() -> None:
            backend = Watched()
            async with AsyncStore(backend) as store:
                await store.sessions.create(id="s")
                await store.work.enqueue("s", 1)
                async with store.work.hold(ttl_s=SHORT_S, heartbeat=False):
                    await asyncio.sleep(SHORT_S)
                assert RenewClaim.__name__ not in backend.written

        asyncio.run(main())


@pytest.mark.parametrize("place", ["memory://", "{}/store.db", "file:///{}/store"])
def test_many_workers_do_everything_once(place: str, tmp_path: Path) -> None:
    """Eight of them, and work that fails at first: each batch ends in exactly one message."""
    sessions, items = [f"s{n}" for n in range(5)], 8

    async def worker(store: AsyncStore, done: list[str]) -> None:
        while len(done) < len(sessions) * items:
            try:
                async with store.work.hold(wait_s=0.2, ttl_s=20) as (lease, claim):
                    (n,) = claim.payloads
                    await asyncio.sleep(0)
                    if n % 3 == 0 and claim.batches[0].attempts == 1:
                        raise ZeroDivisionError
                    turn = store.turns.begin(lease)
                    turn.assistant(str(n))
                    turn.complete(claim)
                    await turn.commit(release=True)
                    done.append(lease.session)
            except (ZeroDivisionError, Timeout):
                continue

    async def main() -> None:
        async with AsyncStore.open(place.format(tmp_path), durability=None) as store:
            for session in sessions:
                await store.sessions.create(id=session)
                for n in range(items):
                    await store.work.enqueue(
                        session, n, backoff_s=0.001, priority=n, max_attempts=3
                    )
            done: list[str] = []
            await asyncio.gather(*(worker(store, done) for _ in range(8)))
            for session in sessions:
                assert await store.work.list(session) == []
                said = [message.text for message in await store.messages.history(session)]
                assert sorted(said) == [str(n) for n in range(items)]
                assert await store.leases.get(session) is None

    asyncio.run(main())


class TestBlocking:
    def test_the_heart_beats_in_a_thread(self) -> None:
        with Store.open("memory://") as store:
            store.sessions.create(id="s")
            store.work.enqueue("s", 1)
            with store.work.hold(ttl_s=SHORT_S) as (lease, claim):
                time.sleep(3 * SHORT_S)
                assert store.leases.get("s") is not None
                (batch,) = store.work.list("s")
                assert batch.claim_expires_us > claim.expires_us
                turn = store.turns.begin(lease)
                turn.complete(claim)
                turn.commit()
            assert store.work.list("s") == []
            assert store.leases.get("s") is None

    def test_a_loss_is_met_at_the_next_commit(self) -> None:
        with Store.open("memory://") as store:
            store.sessions.create(id="s")
            store.work.enqueue("s", 1)
            with store.work.hold(ttl_s=SHORT_S) as (lease, claim):
                store.leases.break_("s", by="ada", reason="test")
                successor = store.work.take(owner="bob")
                assert successor is not None
                time.sleep(2 * SHORT_S)
                turn = store.turns.begin(lease.session)
                turn.complete(claim)
                with pytest.raises(Fenced):
                    turn.commit(lease=lease)
            assert store.leases.get("s") == successor.lease

    def test_a_waiter_is_woken_by_another_thread(self) -> None:
        with Store.open("memory://") as store:
            store.sessions.create(id="s")
            timer = threading.Timer(0.05, lambda: store.work.enqueue("s", "late"))
            timer.start()
            started = time.monotonic()
            with store.work.hold(wait_s=10) as (_, claim):
                assert claim.payloads == ["late"]
            assert time.monotonic() - started < 5
            timer.join()
