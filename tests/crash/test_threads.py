"""Many threads, many tasks and several stores in one process: sums are right, nothing is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import AsyncStore, RevisionMoved, Store, user
from ledgerstone.backends.sqlite import open_sqlite
from ledgerstone.errors import StoreClosed
from tests.crash.plays import commit_of

pytestmark = pytest.mark.crash

THREADS = 20
TASKS = 200
OWN = 10
SHARED = 4


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What each thread returned or raised."""
    found: list[Any] = [None] * count
    start = threading.Barrier(count)

    def run(n: int) -> None:
        start.wait()
        try:
            found[n] = work(n)
        except BaseException as error:
            found[n] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def raise_first(found: list[Any]) -> None:
    for one in found:
        if isinstance(one, BaseException):
            raise one


def add_one(store: Store, session: str) -> int:
    """Count up in the state of a shared session: read, commit on what was seen, or read again."""
    for tries in range(10_000):
        head = store.sessions.head(session)
        revision = 0 if head is None else head.revision
        turn = store.turns.begin(session, expected_revision=revision)
        turn.user(f"{revision}")
        try:
            turn.commit()
        except RevisionMoved:
            continue
        return tries
    raise AssertionError("never got a turn")


def test_twenty_threads_on_one_store(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        store.sessions.create(id="shared")

        def work(n: int) -> int:
            for k in range(OWN):
                store.messages.append(f"own{n}", user(f"{k}"), user(f"{k}"), create=True)
                assert len(store.messages.history(f"own{n}")) == 2 * (k + 1)
            return sum(add_one(store, "shared") for _ in range(SHARED))

        found = in_threads(THREADS, work)
        raise_first(found)
        print(f"{THREADS} threads, {sum(found)} lost races")
        # Each text is the revision it was committed on: a lost update would repeat one.
        shared = [message.text for message in store.messages.history("shared")]
        assert shared == [f"{n}" for n in range(THREADS * SHARED)]
        verified = store.admin.verify()
        assert verified.ok, verified.defects
        assert verified.turns == THREADS * (OWN + SHARED)


def test_two_hundred_tasks_on_one_store(tmp_path: Path) -> None:
    async def add(store: AsyncStore) -> None:
        while True:
            head = await store.sessions.head("shared")
            revision = 0 if head is None else head.revision
            turn = store.turns.begin("shared", expected_revision=revision)
            turn.user(f"{revision}")
            try:
                await turn.commit()
                return
            except RevisionMoved:
                continue

    async def work(store: AsyncStore, n: int) -> None:
        for k in range(3):
            await store.messages.append(f"own{n}", user(f"{k}"), create=True)
        assert await store.messages.count(f"own{n}") == 3
        if n % 10 == 0:
            await add(store)

    async def main() -> None:
        async with AsyncStore.open(tmp_path / "store.db") as store:
            await store.sessions.create(id="shared")
            async with asyncio.TaskGroup() as group:
                for n in range(TASKS):
                    group.create_task(work(store, n))
            shared = [message.text for message in await store.messages.history("shared")]
            assert shared == [f"{n}" for n in range(TASKS // 10)]
            verified = await store.admin.verify()
            assert verified.ok, verified.defects
            assert verified.turns == 3 * TASKS + TASKS // 10

    asyncio.run(main())


def test_two_stores_on_one_path_in_one_process(tmp_path: Path) -> None:
    """Closing one must not take the other's locks away: SQLite's are per process."""
    path = tmp_path / "store.db"
    with Store.open(path) as first:
        second = Store.open(path)
        first.sessions.create(id="shared")

        def work(n: int) -> None:
            for k in range(OWN):
                store = second if n % 2 else first
                store.messages.append("shared", user(f"{n}.{k}"))

        raise_first(in_threads(8, work))
        second.close()
        raise_first(in_threads(4, lambda n: first.messages.append("shared", user("after"))))
        with Store.open(path) as third:
            texts = sorted(message.text for message in third.messages.history("shared"))
            wanted = [f"{n}.{k}" for n in range(8) for k in range(OWN)] + ["after"] * 4
            assert texts == sorted(wanted)
            assert third.admin.verify().ok
        first.messages.append("shared", user("last"))


def test_a_store_in_two_event_loops_at_once(tmp_path: Path) -> None:
    """Answers find the loop that asked for them."""
    with closing(open_sqlite(str(tmp_path / "store.db"))) as backend:

        def work(n: int) -> None:
            async def main() -> None:
                store = AsyncStore(backend)
                for k in range(OWN):
                    await store.messages.append(f"own{n}", user(f"{k}"), create=True)
                    await store.messages.append("shared", user(f"{n}.{k}"), create=True)

            asyncio.run(main())

        raise_first(in_threads(4, work))
        store = Store(backend)
        assert store.messages.count("shared") == 4 * OWN
        assert store.admin.verify().ok


def test_closing_under_load_finishes_what_was_accepted(tmp_path: Path) -> None:
    """Each call answers or says that the store is closed; what was answered is there."""
    path = tmp_path / "store.db"
    backend = open_sqlite(str(path))
    answered: list[str] = []

    def work(n: int) -> str:
        if n == 0:
            threading.Event().wait(0.05)
            backend.close()
            return "closed"
        for k in range(100_000):
            try:
                backend.write(commit_of(f"s{n}", f"{n}.{k}", "x", "y"))
            except StoreClosed:
                return "told"
            answered.append(f"{n}.{k}")
        return "never told"

    found = in_threads(8, work)
    raise_first(found)
    assert found == ["closed", *["told"] * 7]
    with Store.open(path) as store:
        there = {one.turn for n in range(1, 8) for one in store.turns.list(f"s{n}", limit=100_000)}
        assert there >= set(answered)
        assert store.admin.verify().ok


def test_reading_while_the_store_closes(tmp_path: Path) -> None:
    """A reader gets its answer or StoreClosed, never a driver's error."""
    path = tmp_path / "store.db"
    backend = open_sqlite(str(path))
    store = Store(backend)
    store.messages.append("s", *(user(f"{n}") for n in range(200)), create=True)

    def work(n: int) -> str:
        if n == 0:
            threading.Event().wait(0.05)
            backend.close()
            return "closed"
        while True:
            try:
                assert len(store.messages.history("s")) == 200
            except StoreClosed:
                return "told"

    found = in_threads(6, work)
    raise_first(found)
    assert found == ["closed", *["told"] * 5]


def test_an_async_write_after_close_is_refused_at_once(tmp_path: Path) -> None:
    """Also the one that was on its way when another thread closed the store."""

    async def main() -> None:
        backend = open_sqlite(str(tmp_path / "store.db"))
        await backend.awrite(commit_of("s", "one", "x"))
        await asyncio.to_thread(backend.close)
        with pytest.raises(StoreClosed):
            await asyncio.wait_for(backend.awrite(commit_of("s", "two", "x")), 5)
        # The check of the backend was passed just before it closed.
        with pytest.raises(StoreClosed):
            await asyncio.wait_for(backend._writer.awrite(commit_of("s", "two", "x")), 5)

    asyncio.run(main())
