"""Holding a lease: waiting for it, keeping it, losing it, giving it back whatever happens."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

from ledgerstone import (
    AsyncStore,
    Busy,
    Fenced,
    LeaseExpired,
    LeaseHeld,
    SessionNotFound,
    Store,
    user,
)
from ledgerstone.clock import ManualClock, SystemClock
from ledgerstone.commands import Command
from ledgerstone.commands.leases import RenewLease
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.testing.wrappers import Wrapper

SHORT_S = 0.15


class Shaky(Wrapper):
    """Renewals fail for a while, as they do when a server restarts."""

    failures = 0

    def write(self, command: Command[Any]) -> Any:
        if isinstance(command, RenewLease) and self.failures:
            self.failures -= 1
            raise Busy("try again")
        return self.inner.write(command)


async def opened() -> AsyncStore:
    store = await AsyncStore.open("memory://")
    await store.messages.append("s", user("hi"), create=True)
    return store


def test_the_heart_beats_as_long_as_the_block_runs() -> None:
    async def main() -> None:
        async with await opened() as store:
            async with store.leases.hold("s", ttl_s=SHORT_S) as held:
                first = held.lease
                await asyncio.sleep(3 * SHORT_S)
                assert await store.leases.get("s") == held.lease
                assert held.lease.fence == first.fence
                assert held.expires_us > first.expires_us
                assert await store.leases.take("s", owner="bob") is None
            assert await store.leases.get("s") is None

    asyncio.run(main())


def test_a_lost_fence_cancels_the_block_and_is_named() -> None:
    async def main() -> None:
        async with await opened() as store:
            started = time.monotonic()

            async def robbed() -> None:
                async with store.leases.hold("s", ttl_s=SHORT_S):
                    await store.leases.break_("s", by="ada", reason="test")
                    await store.leases.take("s", owner="bob")
                    await asyncio.sleep(30)

            with pytest.raises(Fenced) as caught:
                await robbed()
            assert time.monotonic() - started < 5
            assert caught.value.current == 3
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            await asyncio.sleep(0)
            survivor = await store.leases.get("s")
            assert survivor is not None
            assert survivor.owner == "bob"

    asyncio.run(main())


def test_a_cancellation_from_outside_stays_one_and_leaves_no_lease() -> None:
    async def main() -> None:
        async with await opened() as store:
            inside = asyncio.Event()

            async def request() -> None:
                async with store.leases.hold("s"):
                    inside.set()
                    await asyncio.sleep(30)

            task = asyncio.create_task(request())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await store.leases.get("s") is None

    asyncio.run(main())


def test_an_error_in_the_block_leaves_no_lease() -> None:
    async def main() -> None:
        async with await opened() as store:
            with pytest.raises(ZeroDivisionError):
                async with store.leases.hold("s"):
                    raise ZeroDivisionError
            assert await store.leases.get("s") is None

    asyncio.run(main())


def test_a_renewal_that_fails_for_a_while_is_no_loss() -> None:
    async def main() -> None:
        backend = Shaky(open_memory(None, SystemClock()))
        async with AsyncStore(backend) as store:
            await store.sessions.create(id="s")
            async with store.leases.hold("s", ttl_s=0.6) as held:
                backend.failures = 3
                await asyncio.sleep(0.5)
                assert backend.failures == 0
                assert held.lost is None
                assert await store.leases.get("s") == held.lease

    asyncio.run(main())


def test_a_store_that_can_not_be_reached_for_a_whole_lease_is_a_loss() -> None:
    async def main() -> None:
        backend = Shaky(open_memory(None, SystemClock()))
        async with AsyncStore(backend) as store:
            await store.sessions.create(id="s")

            async def cut_off() -> None:
                async with store.leases.hold("s", ttl_s=SHORT_S):
                    backend.failures = 1_000_000
                    await asyncio.sleep(30)

            with pytest.raises(Fenced):
                await cut_off()

    asyncio.run(main())


def test_waiting_ends_when_the_other_leaves_or_with_lease_held() -> None:
    async def main() -> None:
        async with await opened() as store:
            first = await store.leases.take("s", owner="ann")
            assert first is not None
            with pytest.raises(LeaseHeld) as caught:
                async with store.leases.hold("s", wait_s=0.05):
                    pass
            assert (caught.value.owner, caught.value.expires_us) == ("ann", first.expires_us)

            async def leave() -> None:
                await asyncio.sleep(0.1)
                await store.leases.release(first)

            leaving = asyncio.create_task(leave())
            async with store.leases.hold("s", wait_s=10) as held:
                assert held.fence == first.fence + 1
            await leaving

    asyncio.run(main())


def test_an_unknown_session_can_not_be_held() -> None:
    with (
        Store.open("memory://") as store,
        pytest.raises(SessionNotFound),
        store.leases.hold("nobody"),
    ):
        pass


def test_the_same_owner_gets_a_fresh_fence_each_time() -> None:
    with Store.open("memory://") as store:
        store.sessions.create(id="s")
        fences = []
        for _ in range(3):
            with store.leases.hold("s", owner="ann") as held:
                fences.append(held.fence)
        assert fences == [1, 2, 3]


def test_the_blocking_heart_beats_in_a_thread() -> None:
    with Store.open("memory://") as store:
        store.sessions.create(id="s")
        with store.leases.hold("s", ttl_s=SHORT_S) as held:
            first = held.expires_us
            time.sleep(3 * SHORT_S)
            assert store.leases.get("s") == held.lease
            assert held.expires_us > first
        assert store.leases.get("s") is None


def test_the_blocking_holder_learns_of_its_loss_at_the_next_commit() -> None:
    with Store.open("memory://") as store:
        store.sessions.create(id="s")
        with store.leases.hold("s", ttl_s=SHORT_S) as held:
            store.leases.break_("s", by="ada", reason="test")
            bob = store.leases.take("s", owner="bob")
            deadline = time.monotonic() + 10
            while held.lost is None and time.monotonic() < deadline:
                time.sleep(0.01)
            assert isinstance(held.lost, Fenced)
            with pytest.raises(Fenced) as caught:
                store.messages.append("s", user("too late"), lease=held)
            assert caught.value.current == 3
        assert store.leases.get("s") == bob


def test_a_broken_lease_that_nobody_took_is_taken_again_by_the_heart() -> None:
    """Not broken by force, which moves the fence, but lapsed: the machine slept."""

    async def main() -> None:
        async with await opened() as store, store.leases.hold("s", ttl_s=SHORT_S) as held:
            old = held.lease
            await asyncio.sleep(0)
            time.sleep(2 * SHORT_S)  # The loop itself stands still.
            await asyncio.sleep(SHORT_S)
            assert held.lost is None
            assert held.fence == old.fence + 1
            await store.messages.append("s", user("still here"), lease=held)

    asyncio.run(main())


@pytest.mark.promise(203)
@pytest.mark.parametrize("heartbeat", [True, False])
def test_a_lease_broken_by_force_is_not_taken_again(heartbeat: bool) -> None:
    async def write(store: AsyncStore) -> None:
        async with store.leases.hold("s", ttl_s=SHORT_S, heartbeat=heartbeat) as held:
            await store.leases.break_("s", by="ada", reason="test")
            if heartbeat:
                await asyncio.sleep(10)
            await store.messages.append("s", user("too late"), lease=held)

    async def main() -> None:
        async with await opened() as store:
            with pytest.raises(Fenced) as caught:
                await write(store)
            assert (caught.value.yours, caught.value.current) == (1, 2)
            assert await store.leases.get("s") is None
            assert [one.text for one in await store.messages.history("s")] == ["hi"]

    asyncio.run(main())


class Slow(Wrapper):
    """Commits arrive late: that much time passes on the way of each of the first ones."""

    late: int
    clock: ManualClock

    def write(self, command: Command[Any]) -> Any:
        if isinstance(command, CommitTurn) and self.late:
            self.late -= 1
            self.clock.advance(61)
        return self.inner.write(command)


@pytest.mark.parametrize("late", [1, 3, 4])
def test_a_commit_that_comes_late_again_takes_its_lease_again(late: int) -> None:
    """At most three times; a commit that gave up leaves no lease."""
    clock = ManualClock()
    backend = Slow(open_memory(None, clock))
    backend.clock, backend.late = clock, 0
    with Store(backend) as store:
        store.messages.append("s", user("hi"), create=True)
        with suppress(LeaseExpired), store.leases.hold("s") as held:
            backend.late = late
            turn = store.turns.begin(held)
            turn.user("x")
            turn.commit()
        assert store.messages.count("s") == (1 if late > 3 else 2)
        assert store.leases.get("s") is None


def test_a_lease_that_somebody_had_meanwhile_is_not_taken_again() -> None:
    """Not even by an owner of the same name, who wrote nothing and is gone."""
    with Store.open("memory://") as store:
        store.sessions.create(id="s")
        with store.leases.hold("s", owner="pod-0", heartbeat=False) as old:
            with store.leases.hold("s", owner="pod-0", heartbeat=False):
                pass
            with pytest.raises(Fenced):
                store.messages.append("s", user("too late"), lease=old)
        assert store.leases.get("s") is None
