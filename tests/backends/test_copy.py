"""Copying a store: between all backends, killed in the middle, both colours, little memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from ledgerstone import AsyncStore, Store, Usage, user
from ledgerstone.clock import ManualClock
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.engines.postgres.backend import open_postgres
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import NotSupported
from ledgerstone.ports.backend import Backend
from ledgerstone.testing import movable
from ledgerstone.testing.servers.places import Places

BACKENDS = ("memory", "file", "sqlite", "postgres")
KILLS = 6
LINES_MAX = 40
"""Lines of progress before a kill. The sessions alone say some 70: the first kill is among them."""
WAIT_S = 200
COPY = """
import sys
from ledgerstone import Store
from ledgerstone.api_sync import transfer
transfer.PAGE_ROWS = 50
source, target = sys.argv[1:]
lasting = {"durability": "process"} if target.startswith("file:") else {}
with Store.open(source, tenant=None) as a, Store.open(target, tenant=None, **lasting) as b:
    def step(*said):
        print(*said, flush=True)
        sys.stdin.readline()
    a.admin.copy_to(b, progress=step)
"""
"""A copy in small steps that tells of each, and goes on after a line or the end of its input."""

Make = Callable[[str], Backend]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make(tmp_path: Path, clock: ManualClock, request: pytest.FixtureRequest) -> Iterator[Make]:
    """Opens a new place of a backend; all are closed at the end."""
    made: list[Backend] = []

    def one(kind: str) -> Backend:
        name = str(tmp_path / f"{kind}{len(made)}")
        if kind == "memory":
            made.append(MemoryBackend(clock))
        elif kind == "file":
            made.append(open_file(name, clock=clock, durability="process"))
        elif kind == "sqlite":
            made.append(open_sqlite(name, clock=clock))
        else:
            places: Places = request.getfixturevalue("postgres_places")
            made.append(open_postgres(places.fresh(), clock=clock))
        return made[-1]

    yield one
    for backend in made:
        backend.close()


@pytest.mark.parametrize("target", BACKENDS)
@pytest.mark.parametrize("source", BACKENDS)
def test_every_pair_of_backends(source: str, target: str, make: Make, clock: ManualClock) -> None:
    here, there = make(source), make(target)
    store = movable.fill(here, clock)
    other = Store(there, tenant=None, clock=clock)
    copied = store.admin.copy_to(other)
    root = store.admin.root()
    assert copied.root == root.root
    assert other.admin.root() == root
    assert {one.tenant: one.rows for one in copied.tenants} == {
        one.tenant: one.rows for one in root.tenants
    }
    assert movable.answers(other, there) == movable.answers(store, here)
    assert movable.defects(other) == []


def test_there_and_back_again(make: Make, clock: ManualClock) -> None:
    first = make("sqlite")
    store = movable.fill(first, clock)
    roots = {store.admin.root().root}
    for kind in ("postgres", "file", "memory", "sqlite"):
        following = Store(make(kind), tenant=None, clock=clock)
        roots.add(store.admin.copy_to(following).root)
        store = following
    assert len(roots) == 1


@pytest.mark.parametrize("target", ["sqlite", "file", "postgres"])
def test_from_an_event_loop(
    target: str, tmp_path: Path, clock: ManualClock, request: pytest.FixtureRequest
) -> None:
    url = place_of(target, tmp_path, request)
    with closing(MemoryBackend(clock)) as here:
        root = movable.fill(here, clock).admin.root()

        async def copy() -> None:
            source = AsyncStore(here, tenant=None, clock=clock)
            async with AsyncStore.open(url, tenant=None) as other:
                assert (await source.admin.copy_to(other)).root == root.root
                assert await other.admin.root() == root
                assert (await source.admin.copy_to(other)).root == root.root

        asyncio.run(copy())
    with Store.open(url, tenant=None) as store:
        assert store.admin.root() == root
        assert movable.defects(store) == []


def grow(path: Path, sessions: int, turns: int = 5) -> str:
    """A SQLite store of some size; its url."""
    with Store.open(path, durability="process") as store:
        for n in range(sessions):
            for k in range(turns):
                with store.turns.begin(f"s{n}", run_id=f"r{n}", create=True) as turn:
                    turn.user(f"question {k} " * 20)
                    turn.assistant(f"answer {k} " * 20)
                    turn.use("m", Usage(input=10))
        store.artifacts.put("plan", b"x" * 3_000_000, session="s0")
        store.memories.put("n", "k", 1)
    return str(path)


def place_of(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if kind == "sqlite":
        return str(folder / "target.db")
    if kind == "file":
        return f"file://{folder}/target"
    places: Places = request.getfixturevalue("postgres_places")
    return places.fresh()


def copying(source: str, target: str) -> subprocess.Popen[str]:
    """A process that copies."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", COPY, source, target]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.crash
@pytest.mark.parametrize("target", ["sqlite", "file", "postgres"])
def test_a_copy_that_is_killed_goes_on(
    target: str, tmp_path: Path, seed: int, request: pytest.FixtureRequest
) -> None:
    source = grow(tmp_path / "source.db", 200)
    url = place_of(target, tmp_path, request)
    random, killed = Random(seed), set[str]()
    for _ in range(KILLS):
        with copying(source, url) as child:
            assert child.stdout is not None
            assert child.stdin is not None
            steps = random.randint(3, LINES_MAX)
            child.stdin.write("\n" * steps)
            child.stdin.flush()
            said = [child.stdout.readline() for _ in range(steps)]
            time.sleep(random.uniform(0, 0.02))
            child.kill()
        killed.add(said[-1].split()[0])
        with Store.open(url, tenant=None) as there:
            found = movable.defects(there)
        assert "copy" in {one.kind for one in found}, said[-1]
        with pytest.warns(UserWarning, match="run `ledgerstone copy` again"):
            Store.open(url).close()
    assert killed & {"sessions", "turns"}, killed
    with copying(source, url) as child:
        _, errors = child.communicate(timeout=WAIT_S)
    assert child.returncode == 0, errors
    with Store.open(source, tenant=None) as here, Store.open(url, tenant=None) as there:
        assert there.admin.root() == here.admin.root()
        assert movable.defects(there) == []
    Store.open(url).close()  # A warning would be an error.


def test_memory_does_not_grow_with_the_store(tmp_path: Path) -> None:
    peaks = []
    for sessions in (40, 160):
        source, target = tmp_path / f"{sessions}.db", tmp_path / f"copy{sessions}.db"
        with Store.open(source, durability="process") as here, Store.open(target) as there:
            for n in range(4 * sessions):
                texts = [user(f"{n} {k} " * 50) for k in range(25)]
                here.messages.append(f"s{n % sessions}", *texts, create=True)
            tracemalloc.start()
            here.admin.copy_to(there)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0], peaks
    assert peaks[1] < 40 << 20


def test_bytes_of_another_place_come_along(tmp_path: Path) -> None:
    url, place = tmp_path / "a.db", (tmp_path / "bytes").as_uri()
    with Store.open(url, blobs=place) as store:
        store.artifacts.put("plan", b"x" * 2_000_001)
    with Store.open(url) as blind, Store.open("memory://") as other, pytest.raises(NotSupported):
        blind.admin.copy_to(other)
    with Store.open(url, blobs=place) as store, Store.open(tmp_path / "b.db") as other:
        store.admin.copy_to(other)
        found = other.artifacts.read("plan")
        assert found is not None
        assert found.data == b"x" * 2_000_001
        assert other.admin.verify(blobs=True).ok


def test_an_interrupt_leaves_a_target_that_can_be_gone_on_with(tmp_path: Path) -> None:
    source = grow(tmp_path / "source.db", 30)
    with Store.open(source) as here, closing(Store.open(tmp_path / "b.db")) as there:

        def interrupt(phase: str, done: int, total: int) -> None:
            if phase == "turns":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            here.admin.copy_to(there, progress=interrupt)
        assert not there.admin.verify().ok, "half a copy does not pass for a whole one"
        here.admin.copy_to(there)
        assert there.admin.verify().ok
