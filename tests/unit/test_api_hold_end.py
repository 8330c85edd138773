"""The end of a block that held a lease: writers and heartbeats that are still under way."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import pytest

from ledgerstone import AsyncStore, LeaseExpired, Store, user
from ledgerstone.api import grants
from ledgerstone.api_sync import grants as grants_sync
from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command
from ledgerstone.commands.leases import TakeLease
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.testing.wrappers import Wrapper

SHORT_S = 0.06
WAIT_S = 20.0


class Late(Wrapper):
    """Takes the second lease only when it is let: the first one is the block's own."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(open_memory(None, clock))
        self.taken = 0
        self.asked, self.let = threading.Event(), threading.Event()

    def write(self, command: Command[Any]) -> Any:
        if isinstance(command, TakeLease):
            self.taken += 1
            if self.taken == 2:
                self.asked.set()
                assert self.let.wait(WAIT_S)
        return self.inner.write(command)

    async def awrite(self, command: Command[Any]) -> Any:
        if isinstance(command, TakeLease):
            self.taken += 1
            if self.taken == 2:
                self.asked.set()
                await auntil(self.let)
        return self.inner.write(command)


def until(event: threading.Event) -> None:
    assert event.wait(WAIT_S)


async def auntil(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, WAIT_S)


def let_soon(backend: Late) -> None:
    threading.Timer(0.05, backend.let.set).start()


async def let_go_late(*, heartbeat: bool) -> Late:
    """A block ends while its lapsed lease is being taken again, by its heart or by a task."""
    clock = ManualClock()
    backend = Late(clock)
    async with AsyncStore(backend) as store:
        await store.sessions.create(id="s")
        writer = None
        async with store.leases.hold("s", ttl_s=SHORT_S, heartbeat=heartbeat) as held:
            clock.advance(1)
            if not heartbeat:
                writer = asyncio.create_task(store.messages.append("s", user("x"), lease=held))
            await auntil(backend.asked)
            let_soon(backend)
        if writer is not None:
            await auntil(backend.let)
            with pytest.raises(LeaseExpired, match="ended"):
                await writer
        assert held.lost is None
        assert await store.leases.get("s") is None
        assert await store.messages.history("s") == []
    return backend


@pytest.mark.parametrize("heartbeat", [True, False])
def test_what_is_taken_again_as_the_block_ends_is_given_back(heartbeat: bool) -> None:
    assert asyncio.run(let_go_late(heartbeat=heartbeat)).taken == 2


@pytest.mark.parametrize("heartbeat", [True, False])
def test_the_same_for_threads(heartbeat: bool) -> None:
    clock = ManualClock()
    backend = Late(clock)
    met: list[BaseException] = []

    def write(store: Store, held: Any) -> None:
        with pytest.raises(LeaseExpired, match="ended") as caught:
            store.messages.append("s", user("x"), lease=held)
        met.append(caught.value)

    with Store(backend) as store:
        store.sessions.create(id="s")
        with store.leases.hold("s", ttl_s=SHORT_S, heartbeat=heartbeat) as held:
            clock.advance(1)
            writer = threading.Thread(target=write, args=(store, held))
            if not heartbeat:
                writer.start()
            until(backend.asked)
            let_soon(backend)
        if not heartbeat:
            writer.join()
            assert len(met) == 1
        assert store.leases.get("s") is None
        assert store.messages.history("s") == []


def test_control_a_block_that_does_not_say_that_it_ended_leaves_a_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What these tests are about: without the look at `ended`, the session stays held."""
    for module in (grants, grants_sync):
        monkeypatch.setattr(module, "not_ended", lambda lease: lease)
    monkeypatch.setattr("ledgerstone.records.leases.Held.ended", property(_false, _nothing))
    with pytest.raises(BaseException, match=r"DID NOT RAISE|assert <Lease"):
        asyncio.run(let_go_late(heartbeat=False))


def _false(held: object) -> bool:
    return False


def _nothing(held: object, value: bool) -> None:
    pass


def test_a_task_that_was_given_the_lease_meets_its_end() -> None:
    async def main() -> None:
        async with await AsyncStore.open("memory://") as store:
            await store.sessions.create(id="s")
            told: list[bool] = []

            async def write(held: Any) -> int:
                for n in range(10_000):
                    try:
                        await store.messages.append("s", user(f"{n}"), lease=held)
                    except LeaseExpired as error:
                        told.append(error.ended)
                        return n
                    await asyncio.sleep(0)
                raise AssertionError("nothing ended it")

            async with store.leases.hold("s") as held:
                tasks = [asyncio.create_task(write(held)) for _ in range(3)]
                await asyncio.sleep(0.02)
            written = sum(await asyncio.gather(*tasks))
            assert len(await store.messages.history("s")) == written > 0
            assert told == [True] * 3
            assert await store.leases.get("s") is None

    asyncio.run(main())


@pytest.mark.parametrize("work", [True, False])
def test_after_an_async_block_its_lease_is_over(work: bool) -> None:
    async def main() -> None:
        async with await AsyncStore.open("memory://") as store:
            await store.sessions.create(id="s")
            await store.work.enqueue("s", "job")
            if work:
                async with store.work.take() as (held, _):
                    turn = store.turns.begin(held)
            else:
                with suppress(ZeroDivisionError):
                    async with store.leases.hold("s") as held:
                        turn = store.turns.begin(held)
                        raise ZeroDivisionError
            turn.user("late")
            for call in (
                turn.commit,
                lambda: store.leases.renew(held),
                lambda: store.work.claim(held),
                lambda: store.messages.append(held, user("late")),
            ):
                with pytest.raises(LeaseExpired, match="ended"):
                    await call()
            assert await store.leases.get("s") is None
            async with store.leases.hold("s") as again:
                assert (await turn.commit(lease=again)).revision == 1
            assert again.fence == held.fence + 1

    asyncio.run(main())
