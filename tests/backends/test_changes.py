"""Waiting for a commit: woken by this process at once, by another soon, and by closing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ledgerstone.clock import SystemClock, monotonic_s
from ledgerstone.commands.leases import ReleaseLease
from ledgerstone.commands.sessions import CreateSession, GetSession
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import StoreClosed
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Session
from ledgerstone.testing.wrappers import Reopening

LONG_S = 20.0
SHORT_S = 0.03


def open_one(kind: str, folder: Path) -> Backend:
    if kind == "memory":
        return open_memory(None, SystemClock())
    if kind == "file":
        return open_file(str(folder / "store"))
    if kind == "reopened":
        return Reopening(lambda: open_sqlite(str(folder / "store.db")))
    return open_sqlite(str(folder / "store.db"))


@pytest.fixture(params=["memory", "file", "sqlite", "reopened"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made = open_one(str(request.param), tmp_path)
    yield made
    with suppress(StoreClosed):
        made.close()


def create(backend: Backend, name: str) -> None:
    backend.write(CreateSession(tenant="t", session=Session(id=name)))


def later(work: object, *arguments: object, after_s: float = SHORT_S) -> threading.Timer:
    timer = threading.Timer(after_s, work, arguments)  # type: ignore[arg-type]
    timer.start()
    return timer


def test_minus_one_is_answered_at_once_and_a_commit_moves_the_number(backend: Backend) -> None:
    seen = backend.changed(-1, LONG_S)
    assert seen >= 0
    create(backend, "a")
    again = backend.changed(seen, LONG_S)
    assert again != seen
    assert asyncio.run(backend.achanged(seen, LONG_S)) != seen


def test_nothing_happened_is_said_when_the_time_is_over(backend: Backend) -> None:
    create(backend, "a")
    seen = backend.changed(-1, 0)
    began_s = monotonic_s()
    assert backend.changed(seen, SHORT_S) == seen
    assert asyncio.run(backend.achanged(seen, SHORT_S)) == seen
    assert 2 * SHORT_S <= monotonic_s() - began_s < 5
    assert backend.changed(seen, 0) == seen


def test_a_command_that_wrote_nothing_wakes_nobody(backend: Backend) -> None:
    create(backend, "a")
    seen = backend.changed(-1, 0)
    release = ReleaseLease(tenant="t", session="a", owner="o", fence=7, token="x")
    assert backend.write(release) is False
    assert backend.changed(seen, SHORT_S) == seen


def test_after_an_answer_the_same_commit_is_not_told_again(backend: Backend) -> None:
    seen = backend.changed(-1, 0)
    create(backend, "a")
    seen = backend.changed(seen, LONG_S)
    assert backend.changed(seen, SHORT_S) == seen


def test_a_sleeping_waiter_is_woken(backend: Backend) -> None:
    seen = backend.changed(-1, 0)
    began_s = monotonic_s()
    later(create, backend, "a")
    assert backend.changed(seen, LONG_S) != seen
    assert monotonic_s() - began_s < LONG_S / 2


def test_many_sleepers_of_one_loop_are_woken_without_a_thread_each(backend: Backend) -> None:
    async def sleep() -> None:
        seen = await backend.achanged(-1, 0)
        threads = threading.active_count()
        sleepers = [asyncio.create_task(backend.achanged(seen, LONG_S)) for _ in range(200)]
        await asyncio.sleep(SHORT_S)
        assert threading.active_count() == threads
        assert not any(one.done() for one in sleepers)
        await backend.awrite(CreateSession(tenant="t", session=Session(id="a")))
        async with asyncio.timeout(LONG_S / 2):
            assert seen not in await asyncio.gather(*sleepers)

    asyncio.run(sleep())


def test_a_commit_of_another_thread_wakes_the_loop(backend: Backend) -> None:
    async def sleep() -> None:
        seen = await backend.achanged(-1, 0)
        later(create, backend, "a")
        async with asyncio.timeout(LONG_S / 2):
            assert await backend.achanged(seen, LONG_S) != seen

    asyncio.run(sleep())


def test_a_cancelled_wait_leaves_nothing_behind(tmp_path: Path) -> None:
    backend = open_sqlite(str(tmp_path / "store.db"))

    async def sleep() -> None:
        seen = await backend.achanged(-1, 0)
        waiting = asyncio.create_task(backend.achanged(seen, LONG_S))
        await asyncio.sleep(SHORT_S)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert not backend._changes._waiters

    asyncio.run(sleep())
    create(backend, "a")
    backend.close()


def test_closing_ends_every_wait(backend: Backend) -> None:
    seen = backend.changed(-1, 0)
    later(backend.close)
    with pytest.raises(StoreClosed):
        backend.changed(seen, LONG_S)
    with pytest.raises(StoreClosed):
        backend.changed(seen, LONG_S)


def test_closing_ends_every_wait_of_a_loop(backend: Backend) -> None:
    async def sleep() -> None:
        seen = await backend.achanged(-1, 0)
        later(backend.close)
        async with asyncio.timeout(LONG_S / 2):
            with pytest.raises(StoreClosed):
                await backend.achanged(seen, LONG_S)

    asyncio.run(sleep())


def test_a_store_that_nobody_waits_for_has_no_connection_for_it(tmp_path: Path) -> None:
    backend = open_sqlite(str(tmp_path / "store.db"))
    create(backend, "a")
    assert backend.read([GetSession(tenant="t", id="a")])
    assert backend._changes._tx is None
    seen = backend.changed(-1, 0)
    assert backend.changed(seen, SHORT_S) == seen
    backend.close()
    assert not (tmp_path / "store.db-wal").exists(), "the writer was not the last to close"


COMMIT = """
import sys
from ledgerstone import Store
with Store.open(sys.argv[1]) as store:
    print("open", flush=True)
    sys.stdin.readline()
    store.sessions.create(id="theirs")
"""


@pytest.mark.parametrize("colour", ["blocking", "async"])
def test_a_commit_of_another_process_wakes(tmp_path: Path, colour: str) -> None:
    path = str(tmp_path / "store.db")
    backend = open_sqlite(path)
    with subprocess.Popen(
        [sys.executable, "-c", COMMIT, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "open\n"
        seen = backend.changed(-1, 0)
        assert backend.changed(seen, SHORT_S) == seen
        child.stdin.write("go\n")
        child.stdin.flush()
        if colour == "async":
            assert asyncio.run(backend.achanged(seen, LONG_S)) != seen
        else:
            assert backend.changed(seen, LONG_S) != seen
        assert backend.read([GetSession(tenant="t", id="theirs")]) == [None]
        assert backend.read([GetSession(tenant="default", id="theirs")]) != [None]
        child.wait(LONG_S)
    backend.close()
