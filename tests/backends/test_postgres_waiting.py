"""More calls at once than there are connections: they wait, first come, first served.

The time that a call may take is short here, so that waiting takes much longer than that.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from ledgerstone import AsyncStore, user
from ledgerstone.adapters.langgraph import LedgerStore
from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.engines.postgres.drivers import urls as postgres_urls
from ledgerstone.engines.postgres.drivers.slots import Slots, wait_in_thread, wait_on_loop
from ledgerstone.engines.postgres.planned import flusher as postgres_flusher
from ledgerstone.errors import Busy, OutcomeUnknown, Unavailable
from ledgerstone.testing.faults.commits import commit_of
from ledgerstone.testing.servers.proxy import Proxy
from ledgerstone.trampoline import run_now

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LIMIT_S = 1.5
LIMIT_OF_MANY_S = 6.0
"""More than an event loop with thousands of tasks takes for one round on a busy machine."""
CALLS = 4002
COMMITS = 700
POOL_SIZE = 4
LINK_S = 0.004
HANGS_S = 60.0


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a call when the url names none."""
    monkeypatch.setattr(postgres_urls, "STATEMENT_TIMEOUT_S", LIMIT_S)


@pytest.fixture
def far_url(postgres_url: str) -> Iterator[str]:
    """The server at the end of a link that takes a while."""
    parts = urlsplit(postgres_url)
    host = parts.hostname or "127.0.0.1"
    with Proxy(parts.port or 5432, host=host, latency_s=LINK_S) as proxy:
        yield proxy.url(postgres_url)


@pytest.fixture
def backend(short: None, postgres_url: str) -> Iterator[PostgresBackend]:
    with closing(open_postgres(postgres_url, pool_size=POOL_SIZE)) as opened:
        yield opened


async def remember_all(url: str, calls: int) -> list[Any]:
    """That many calls of LangGraph's memory at once, of all three kinds."""
    async with AsyncStore.open(url, pool_size=POOL_SIZE) as store:
        memory = LedgerStore(store)
        await asyncio.gather(*(memory.aput(("warm",), str(n), {}) for n in range(POOL_SIZE)))
        works = [
            memory.aput(("users", str(n % 50)), f"k{n}", {"n": n})
            if n % 3 == 0
            else memory.aget(("users", str(n % 50)), f"k{n - n % 3}")
            if n % 3 == 1
            else memory.asearch(("users", str(n % 50)), limit=1)
            for n in range(calls)
        ]
        found = await asyncio.gather(*works, return_exceptions=True)
        kept = await store.memories.search(("langgraph", "users"), limit=calls)
        places = store._handle.backend._on_loop().pool.driver._places  # type: ignore[attr-defined]
        assert (places.free, places.waiting) == (POOL_SIZE, 0)
        return [len(kept), *found]


def test_thousands_of_calls_at_once_all_get_their_turn(
    far_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_urls, "STATEMENT_TIMEOUT_S", LIMIT_OF_MANY_S)
    start_s = monotonic_s()
    stored, *found = asyncio.run(remember_all(far_url, CALLS))
    assert [one for one in found if isinstance(one, BaseException)] == []
    assert stored == CALLS // 3
    # Otherwise nobody had to wait for longer than a call may take, and this shows nothing.
    assert monotonic_s() - start_s > LIMIT_OF_MANY_S


def test_control_a_deadline_that_was_asked_for_is_kept(far_url: str) -> None:
    """The same calls, when the url names the time: waiting is a part of it."""
    joiner = "&" if "?" in far_url else "?"
    url = f"{far_url}{joiner}statement_timeout_s={LIMIT_S}"
    found = asyncio.run(remember_all(url, CALLS))[1:]
    late = [one for one in found if isinstance(one, BaseException)]
    assert late
    assert all(isinstance(one, Unavailable | OutcomeUnknown) for one in late)
    assert any("leave statement_timeout_s out" in str(one) for one in late)


def test_commits_beyond_the_queue_wait_outside_of_it(
    short: None, far_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is planned is bounded; the same session's commits, one per call, outlast the limit."""
    monkeypatch.setattr(postgres_flusher, "QUEUE_MAX", 64)
    most = 0

    async def story() -> list[Any]:
        nonlocal most
        async with AsyncStore.open(far_url) as store:
            names = ["a", "b"]
            for name in names:
                await store.sessions.create(id=name)
            works = [store.messages.append(names[n % 2], user(str(n))) for n in range(COMMITS)]
            all_of_them = asyncio.gather(*works, return_exceptions=True)
            line = store._handle.backend._on_loop().hot._line  # type: ignore[attr-defined]
            while not all_of_them.done():
                most = max(most, sum(len(one) for one in line._of.values()))
                await asyncio.sleep(0)
            counts = [await store.messages.count(name) for name in names]
            return [*counts, *all_of_them.result()]

    start_s = monotonic_s()
    first, second, *found = asyncio.run(story())
    assert [one for one in found if isinstance(one, BaseException)] == []
    assert (first, second) == (COMMITS // 2, COMMITS // 2)
    assert 0 < most <= 64
    assert monotonic_s() - start_s > LIMIT_S


def test_a_server_that_answers_nobody_is_not_waited_for(backend: PostgresBackend) -> None:
    """All that wait end when the last answer is as old as a call may take."""

    async def story() -> None:
        pool = backend._on_loop().pool
        held = [await pool.borrow() for _ in range(POOL_SIZE)]
        start_s = monotonic_s()
        works: list[Any] = [backend.aread([]) for _ in range(200)]
        works += [backend.awrite(commit_of("s", f"t{n}", "x", create=True)) for n in range(200)]
        found = await asyncio.gather(*works, return_exceptions=True)
        assert {type(one) for one in found} == {Busy}
        assert "none of them got an answer" in str(found[0])
        assert LIMIT_S <= monotonic_s() - start_s < LIMIT_S + 2
        for connection in held:
            pool.give_back(connection)
        assert (await backend.awrite(commit_of("s", "t", "x", create=True))).revision == 1

    asyncio.run(story())


def test_answers_to_others_keep_one_waiting(backend: PostgresBackend) -> None:
    """In threads: who waits does so while somebody is answered, and Busy ends it otherwise."""
    pool = backend._blocking.pool
    held = [run_now(pool.borrow()) for _ in range(POOL_SIZE)]
    got: list[Any] = []

    def wait() -> None:
        try:
            got.append(backend.read([]))
        except Busy as error:
            got.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    for _ in range(6):
        time.sleep(LIMIT_S / 5)
        pool._answered_s = monotonic_s()
    assert got == []
    pool.give_back(held.pop())
    thread.join(HANGS_S)
    assert got == [[]]
    held.append(run_now(pool.borrow()))
    wait()
    assert isinstance(got[1], Busy)
    for connection in held:
        pool.give_back(connection)


def test_cancelled_callers_leave_the_queue(backend: PostgresBackend) -> None:
    async def story() -> None:
        face = backend._on_loop()
        places = face.pool.driver._places  # type: ignore[attr-defined]
        held = [await face.pool.borrow() for _ in range(POOL_SIZE)]
        turns = [commit_of(f"s{n}", "t", "x", create=True) for n in range(500)]
        tasks = [asyncio.ensure_future(backend.awrite(turn)) for turn in turns]
        await asyncio.sleep(0)
        assert places.waiting == len(tasks)
        for task in tasks[:-1]:
            task.cancel()
        face.pool.give_back(held.pop())
        assert (await tasks[-1]).revision == 1
        await asyncio.wait(tasks)
        assert places.waiting == 0
        for connection in held:
            face.pool.give_back(connection)
        assert places.free == POOL_SIZE

    asyncio.run(story())
    # Whoever left before it was its turn wrote nothing.
    assert backend.write(commit_of("s0", "t", "x", create=True)).replayed is False


# --- the places themselves


def in_an_hour() -> float:
    return monotonic_s() + 3600


def test_first_come_first_served_on_a_loop() -> None:
    async def story() -> list[int]:
        places, order = Slots(1), list[int]()
        inside = places.take()
        assert inside is not None

        async def call(n: int) -> None:
            place = await wait_on_loop(places, in_an_hour, first=n == 7)
            assert place is not None
            order.append(n)
            await asyncio.sleep(0)
            place.leave()

        tasks = [asyncio.ensure_future(call(n)) for n in range(8)]
        await asyncio.sleep(0)
        inside.leave()
        # One that comes now does not pass those who wait.
        assert places.take() is None
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(story()) == [7, 0, 1, 2, 3, 4, 5, 6]


def test_first_come_first_served_in_threads() -> None:
    places, order = Slots(1), list[int]()
    inside = places.take()
    assert inside is not None

    def call(n: int) -> None:
        place = wait_in_thread(places, in_an_hour)
        assert place is not None
        order.append(n)
        place.leave()

    threads = [threading.Thread(target=call, args=(n,)) for n in range(12)]
    for n, thread in enumerate(threads):
        thread.start()
        while places.waiting <= n:
            time.sleep(0.001)
    inside.leave()
    for thread in threads:
        thread.join(HANGS_S)
    assert order == list(range(12))


def test_no_place_is_lost_or_doubled(seed: int) -> None:
    """Random callers come, are cancelled, run out of time or drop their place without a word."""
    random = Random(seed)

    async def story() -> None:
        places, inside, most = Slots(3), 0, 0

        async def call() -> None:
            nonlocal inside, most
            due_s = monotonic_s() + random.choice((0.001, 3600))
            place = await wait_on_loop(places, lambda: due_s, first=random.random() < 0.1)
            if place is None:
                return
            inside += 1
            most = max(most, inside)
            try:
                await asyncio.sleep(random.choice((0, 0.0005)))
            finally:
                inside -= 1
                if random.random() < 0.7:
                    place.leave()
                del place

        tasks = [asyncio.ensure_future(call()) for _ in range(2000)]
        for task in random.sample(tasks, 700):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.wait(tasks)
        del tasks
        assert most == 3
        assert (places.free, places.waiting) == (3, 0)

    asyncio.run(asyncio.wait_for(story(), HANGS_S))
