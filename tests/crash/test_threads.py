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
from ledgerstone.engines.sqlite.backend import SqliteBackend, open_sqlite
from ledgerstone.errors import StoreClosed
from ledgerstone.testing.faults.commits import commit_of
from ledgerstone.testing.faults.sabotage import AcknowledgesEarly
from ledgerstone.testing.faults.sabotage_rules import IgnoresRevision
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.faults.places import Place, every_shared_place

pytestmark = [pytest.mark.crash, pytest.mark.faults]

THREADS = 20
TASKS = 200
OWN = (10, 100)
SHARED = (4, 20)


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


@every_shared_place
def test_twenty_threads_on_one_store(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    with scoreboard.line("20 threads on one store", place.name) as line:
        own, common = scale(*OWN), scale(*SHARED)
        with Store.open(place.where(tmp_path)) as store:
            store.sessions.create(id="shared")

            def work(n: int) -> int:
                for k in range(own):
                    store.messages.append(f"own{n}", user(f"{k}"), user(f"{k}"), create=True)
                    assert len(store.messages.history(f"own{n}")) == 2 * (k + 1)
                return sum(add_one(store, "shared") for _ in range(common))

            found = in_threads(THREADS, work)
            raise_first(found)
            print(f"{THREADS} threads, {sum(found)} lost races")
            # Each text is the revision it was committed on: a lost update would repeat one.
            shared = [message.text for message in store.messages.history("shared")]
            assert shared == [f"{n}" for n in range(THREADS * common)]
            verified = store.admin.verify()
            assert verified.ok, verified.defects
            assert verified.turns == THREADS * (own + common)
        line.n = THREADS * (own + common)


@every_shared_place
def test_two_hundred_tasks_on_one_store(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    with scoreboard.line("200 tasks on one store", place.name) as line:
        own = scale(3, 30)

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
            for k in range(own):
                await store.messages.append(f"own{n}", user(f"{k}"), create=True)
            assert await store.messages.count(f"own{n}") == own
            if n % 10 == 0:
                await add(store)

        async def main() -> None:
            async with AsyncStore.open(place.where(tmp_path)) as store:
                await store.sessions.create(id="shared")
                async with asyncio.TaskGroup() as group:
                    for n in range(TASKS):
                        group.create_task(work(store, n))
                shared = [message.text for message in await store.messages.history("shared")]
                assert shared == [f"{n}" for n in range(TASKS // 10)]
                verified = await store.admin.verify()
                assert verified.ok, verified.defects
                assert verified.turns == own * TASKS + TASKS // 10

        asyncio.run(main())
        line.n = own * TASKS + TASKS // 10


@every_shared_place
def test_two_stores_on_one_path_in_one_process(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    """Closing one must not take the other's locks away: SQLite's are per process."""
    with scoreboard.line("two stores on one path in one process", place.name) as line:
        path, own = place.where(tmp_path), scale(*OWN)
        with Store.open(path) as first:
            second = Store.open(path)
            first.sessions.create(id="shared")

            def work(n: int) -> None:
                for k in range(own):
                    store = second if n % 2 else first
                    store.messages.append("shared", user(f"{n}.{k}"))

            raise_first(in_threads(8, work))
            second.close()
            raise_first(in_threads(4, lambda n: first.messages.append("shared", user("after"))))
            with Store.open(path) as third:
                texts = sorted(message.text for message in third.messages.history("shared"))
                wanted = [f"{n}.{k}" for n in range(8) for k in range(own)] + ["after"] * 4
                assert texts == sorted(wanted)
                assert third.admin.verify().ok
            first.messages.append("shared", user("last"))
        line.n = 8 * own + 4


@every_shared_place
def test_a_store_in_two_event_loops_at_once(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    """Answers find the loop that asked for them."""
    with scoreboard.line("one store in four event loops", place.name) as line:
        own = scale(*OWN)
        with closing(place.at(tmp_path)()) as backend:

            def work(n: int) -> None:
                async def main() -> None:
                    store = AsyncStore(backend)
                    for k in range(own):
                        await store.messages.append(f"own{n}", user(f"{k}"), create=True)
                        await store.messages.append("shared", user(f"{n}.{k}"), create=True)

                asyncio.run(main())

            raise_first(in_threads(4, work))
            store = Store(backend)
            assert store.messages.count("shared") == 4 * own
            assert store.admin.verify().ok
        line.n = 8 * own


@every_shared_place
def test_closing_under_load_finishes_what_was_accepted(
    place: Place, tmp_path: Path, scoreboard: Scoreboard
) -> None:
    """Each call answers or says that the store is closed; what was answered is there."""
    with scoreboard.line("closing under load", place.name) as line:
        path, backend = place.where(tmp_path), place.at(tmp_path)()
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
            there = {
                one.turn for n in range(1, 8) for one in store.turns.list(f"s{n}", limit=100_000)
            }
            assert there >= set(answered)
            assert store.admin.verify().ok
        line.n = len(answered)


@every_shared_place
def test_reading_while_the_store_closes(
    place: Place, tmp_path: Path, scoreboard: Scoreboard
) -> None:
    """A reader gets its answer or StoreClosed, never a driver's error."""
    with scoreboard.line("reading while the store closes", place.name) as line:
        backend = place.at(tmp_path)()
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
        line.n = len(found) - 1


@every_shared_place
def test_an_async_write_after_close_is_refused_at_once(
    place: Place, tmp_path: Path, scoreboard: Scoreboard
) -> None:
    """Also the one that was on its way when another thread closed the store."""

    with scoreboard.line("writing after the store was closed", place.name) as line:

        async def main() -> None:
            backend = place.at(tmp_path)()
            await backend.awrite(commit_of("s", "one", "x"))
            await asyncio.to_thread(backend.close)
            with pytest.raises(StoreClosed):
                await asyncio.wait_for(backend.awrite(commit_of("s", "two", "x")), 5)
            if isinstance(backend, SqliteBackend):
                # The check of the backend was passed just before it closed.
                late = backend._writer.awrite(commit_of("s", "two", "x"))
                with pytest.raises(StoreClosed):
                    await asyncio.wait_for(late, 5)

        asyncio.run(main())
        line.n = 2


# --- negative controls


def test_control_a_lost_update_is_found(tmp_path: Path, scoreboard: Scoreboard) -> None:
    """The same threads on a store that does not look at the expected revision."""
    with (
        scoreboard.line("threads, IgnoresRevision", "sqlite", control=True) as line,
        closing(open_sqlite(str(tmp_path / "store.db"))) as backend,
    ):
        store = Store(IgnoresRevision(backend))
        store.sessions.create(id="shared")
        # All of them have read before the first one writes: each loses the others' update.
        read = threading.Barrier(THREADS)

        def work(n: int) -> None:
            head = store.sessions.head("shared")
            revision = 0 if head is None else head.revision
            read.wait()
            turn = store.turns.begin("shared", expected_revision=revision)
            turn.user(f"{revision}")
            turn.commit()

        raise_first(in_threads(THREADS, work))
        shared = [message.text for message in store.messages.history("shared")]
        wanted = [f"{n}" for n in range(THREADS)]
        line.n = THREADS
        line.violations += [
            f"{one} instead of {other}"
            for one, other in zip(shared, wanted, strict=True)
            if one != other
        ]


def test_control_an_answer_before_the_commit_is_found(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    """What the closing test asks of a store that answers first and writes later."""
    path = tmp_path / "store.db"
    with scoreboard.line("closing under load, AcknowledgesEarly", "sqlite", control=True) as line:
        early = AcknowledgesEarly(open_sqlite(str(path)))
        answered = [early.write(commit_of("s", f"t{n}", "x", "y")).turn for n in range(5)]
        early.close()
        with Store.open(path) as store:
            there = {one.turn for one in store.turns.list("s")}
        line.n = len(answered)
        line.violations += [turn for turn in answered if turn not in there]
