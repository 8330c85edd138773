"""Many callers and one writer: who waits for whom, who is told what, and what Ctrl-C cannot do."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import AsyncStore, Store, user
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.file.backend import FileBackend, open_file
from ledgerstone.engines.file.disk import Disk
from ledgerstone.engines.memory.rows import MemoryRows
from ledgerstone.errors import OutcomeUnknown, StoreClosed, Unavailable
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.testing.faults.commits import TENANT, commit_of
from tests.backends.journals import NEVER, bed, journal_of, lines
from tests.backends.places import quick_disk

WAIT_S = 30.0


class Gate(Disk):
    """A flush takes until somebody opens the gate."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.free = threading.Event()
        self.free.set()

    def sync(self, file: int) -> None:
        self.reached.set()
        assert self.free.wait(WAIT_S)
        super().sync(file)

    def shut(self) -> None:
        self.reached.clear()
        self.free.clear()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as folder:
        yield folder / "store"


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def backend(path: Path, gate: Gate) -> Iterator[FileBackend]:
    opened = open_file(str(path), disk=gate, snapshot_lines=NEVER)
    opened.write(commit_of("s", "first", "one"))
    yield opened
    gate.free.set()
    opened.close()


def turns(backend: FileBackend, session: str = "s") -> list[str]:
    return [turn.turn for turn in Store(backend, tenant=TENANT).turns.list(session)]


# --- a slow flush


def test_readers_wait_for_no_flush_and_see_nothing_unflushed(
    backend: FileBackend, gate: Gate
) -> None:
    async def main() -> None:
        store = AsyncStore(backend, tenant=TENANT)
        gate.shut()
        writing = asyncio.ensure_future(backend.awrite(commit_of("s", "slow", "two")))
        assert await asyncio.to_thread(gate.reached.wait, WAIT_S)
        # In this very thread: were the lock held now, the loop would stand still for ever.
        assert [turn.turn for turn in await store.turns.list("s")] == ["first"]
        assert not writing.done()
        gate.free.set()
        assert not (await writing).replayed
        assert [turn.turn for turn in await store.turns.list("s")] == ["first", "slow"]

    asyncio.run(asyncio.wait_for(main(), WAIT_S))


def test_a_cancelled_waiter_does_not_stop_its_command(backend: FileBackend, gate: Gate) -> None:
    """Neither one that is being flushed nor one that waits behind it."""

    async def main() -> None:
        gate.shut()
        tasks = [
            asyncio.ensure_future(backend.awrite(commit_of("s", f"t{n}", "x"))) for n in range(4)
        ]
        assert await asyncio.to_thread(gate.reached.wait, WAIT_S)
        for task in tasks[:3]:
            task.cancel()
        results = asyncio.gather(*tasks, return_exceptions=True)
        gate.free.set()
        got = await results
        assert [type(one) for one in got[:3]] == [asyncio.CancelledError] * 3

    asyncio.run(asyncio.wait_for(main(), WAIT_S))
    assert turns(backend) == ["first", "t0", "t1", "t2", "t3"]
    assert backend.write(commit_of("s", "t1", "x")).replayed


def test_closing_finishes_what_was_accepted(path: Path, gate: Gate) -> None:
    async def main() -> None:
        opened = open_file(str(path), disk=gate)
        gate.shut()
        tasks = [
            asyncio.ensure_future(opened.awrite(commit_of("s", f"t{n}", "x"))) for n in range(5)
        ]
        assert await asyncio.to_thread(gate.reached.wait, WAIT_S)
        closing = asyncio.ensure_future(asyncio.to_thread(opened.close))
        await asyncio.to_thread(refused, opened)
        with pytest.raises(StoreClosed):
            await opened.awrite(commit_of("s", "late", "x"))
        gate.free.set()
        await closing
        assert [answer.revision for answer in await asyncio.gather(*tasks)] == [1, 2, 3, 4, 5]

    asyncio.run(asyncio.wait_for(main(), WAIT_S))
    with bed(path) as again:
        assert again.store.admin.verify().ok


def refused(opened: FileBackend) -> None:
    """Until the store says that it is closed."""
    with suppress(StoreClosed):
        while True:
            opened.tenants()


# --- interrupts


def test_what_a_handler_raises_leaves_no_trace(
    backend: FileBackend, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it has changed rows, which is the worst moment."""
    real = HANDLERS[CommitTurn]
    for error in (KeyboardInterrupt, MemoryError, SystemExit):

        async def failing(tx: Any, command: Any, error: type[BaseException] = error) -> Any:
            await real(tx, command)
            raise error

        before = journal_of(path, "s").read_bytes()
        with monkeypatch.context() as patched:
            patched.setitem(HANDLERS, CommitTurn, failing)
            with pytest.raises(error):
                backend.write(commit_of("s", error.__name__, "half"))
            with pytest.raises((error, Unavailable)) as caught:
                asyncio.run(backend.awrite(commit_of("s", error.__name__, "half")))
            assert isinstance(caught.value, Exception)
        assert turns(backend) == ["first"]
        assert journal_of(path, "s").read_bytes() == before
    assert not backend.write(commit_of("s", "next", "x")).replayed
    assert turns(backend) == ["first", "next"]


def test_memory_that_could_not_follow_the_disk_answers_nothing(
    backend: FileBackend, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is on disk and the rows are not there: nobody may read the half of them."""
    real = MemoryRows.place

    def failing(rows: MemoryRows, changes: Any) -> None:
        real(rows, list(changes)[:1])
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(MemoryRows, "place", failing)
        with pytest.raises(OutcomeUnknown):
            backend.write(commit_of("s", "second", "x"))
    with pytest.raises(Unavailable, match="open the store again"):
        turns(backend)
    with pytest.raises(Unavailable):
        backend.write(commit_of("s", "third", "x"))
    backend.close()
    with bed(path) as again:
        found = [turn.turn for turn in again.open(TENANT).turns.list("s")]
        assert found == ["first", "second"]


CONTROL_C = """
import os, signal, sys, threading
from ledgerstone import Store, user
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.file.disk import Disk

class Slow(Disk):
    armed = False
    def sync(self, file):
        if Slow.armed:
            Slow.armed = False
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            threading.Event().wait(0.6)
        super().sync(file)

signal.signal(signal.SIGINT, signal.default_int_handler)  # A job in the background ignores it.
backend = open_file(sys.argv[1], disk=Slow())
store = Store(backend)
store.messages.append("s", user("one"), create=True)
Slow.armed = True
try:
    store.messages.append("s", user("two"))
except KeyboardInterrupt:
    print("interrupted")
store.messages.append("s", user("three"))
print(*(message.text for message in store.messages.history("s")))
store.close()
"""


def test_control_c_during_a_flush(path: Path) -> None:
    """The caller is interrupted, its line is not: it was begun, so it is carried out."""
    script = [sys.executable, "-c", CONTROL_C, str(path)]
    done = subprocess.run(script, capture_output=True, text=True, timeout=WAIT_S, check=True)
    assert done.stdout.split() == ["interrupted", "one", "two", "three"]
    assert done.stderr == ""
    with bed(path) as again:
        assert again.texts("s") == ["one", "two", "three"]
        assert again.store.admin.verify().ok


@pytest.fixture
def heard() -> Iterator[None]:
    """Ctrl-C arrives, also where the tests run as a job in the background, which ignores it."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.mark.usefixtures("heard")
def test_an_interrupted_caller_withdraws_what_nobody_began(
    backend: FileBackend, gate: Gate
) -> None:
    """Behind a slow flush, in the main thread, where signals arrive."""
    gate.shut()
    first = threading.Thread(target=backend.write, args=(commit_of("s", "slow", "x"),))
    first.start()
    assert gate.reached.wait(WAIT_S)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        backend.write(commit_of("s", "withdrawn", "x"))
    gate.free.set()
    first.join(WAIT_S)
    backend.write(commit_of("s", "after", "x"))
    assert turns(backend) == ["first", "slow", "after"]


FORGOTTEN = """
import sys
from ledgerstone import Store, user
store = Store.open("file:///" + sys.argv[1])
store.messages.append("s", user("one"), create=True)
"""


@pytest.mark.slow
def test_a_store_that_nobody_closes(path: Path) -> None:
    """The interpreter ends: no noise, no half line, and the next one may open it."""
    for n in range(3):
        script = [sys.executable, "-c", FORGOTTEN, str(path)]
        done = subprocess.run(script, capture_output=True, text=True, timeout=WAIT_S, check=True)
        assert (done.stdout, done.stderr) == ("", "")
        with bed(path) as backend:
            assert len(backend.texts("s")) == n + 1


# --- crowds


def test_many_threads_and_tasks_at_once(path: Path) -> None:
    with bed(path) as backend:
        store = backend.store

        def work(n: int) -> None:
            for k in range(10):
                store.messages.append(f"s{n % 3}", user(f"{n}/{k}"), create=True)
                assert f"{n}/{k}" in [one.text for one in store.messages.history(f"s{n % 3}")]

        async def tasks() -> None:
            asynchronous = AsyncStore(backend.port)

            async def task(n: int) -> None:
                for k in range(10):
                    await asynchronous.messages.append("a", user(f"{n}/{k}"), create=True)

            await asyncio.gather(*(task(n) for n in range(20)))

        with ThreadPoolExecutor(9) as pool:
            crowd = [pool.submit(work, n) for n in range(8)]
            crowd.append(pool.submit(lambda: asyncio.run(tasks())))
            for one in crowd:
                one.result(WAIT_S)
        for _ in range(2):
            counts = [backend.store.messages.count(name) for name in ("s0", "s1", "s2", "a")]
            assert sum(counts) == 80 + 200
            assert backend.store.admin.verify().ok
            assert len(lines(journal_of(path, "a"))) == 200
            backend.reopen()
