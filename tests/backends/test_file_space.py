"""Disks that are full, slow or failing: memory and disk never disagree about what happened."""

from __future__ import annotations

import errno
import json
import resource
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ledgerstone import Store, user
from ledgerstone.clock import ManualClock
from ledgerstone.engines.file.backend import FileBackend, open_file
from ledgerstone.engines.file.disk import Disk
from ledgerstone.errors import (
    LedgerstoneError,
    OutcomeUnknown,
    StorageFull,
    Unavailable,
)
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.processes import Child, Say
from tests.backends.journals import NEVER, Watching, bed, fill, journal_of, lines
from tests.backends.places import quick_disk, small_disk

BODY = "x" * 2000
WAIT_S = 30.0
FULL = OSError(errno.ENOSPC, "No space left on device")
BROKEN = OSError(errno.EIO, "Input/output error")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as folder:
        yield folder / "store"


# --- a full disk


def fill_up(store: Store) -> int:
    for n in range(100_000):
        try:
            store.messages.append("s", user(f"{n} {BODY}"), user("and more"), create=True)
        except StorageFull:
            return n
    raise AssertionError("the disk never got full")


def test_a_full_disk(tmp_path: Path) -> None:
    """StorageFull; what is older stays readable; freed space is used by the same handle."""
    with small_disk(tmp_path / "disk", "2m") as disk:
        if disk is None:
            print("capability mount: no; see the limit on file sizes below")
            return
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(600_000))
        with bed(disk / "store") as backend:
            store = backend.store
            acked = fill_up(store)
            assert acked > 10
            assert store.messages.count("s") == 2 * acked
            assert store.admin.verify().ok
            with pytest.raises(StorageFull, match="No space"):
                store.messages.append("s", user(BODY * 10))
            with pytest.raises(StorageFull):
                store.messages.append("new", user(BODY * 10), create=True)
            assert store.sessions.get("new") is None
            ballast.unlink()
            store.messages.append("s", user("space again"))
            more = fill_up(store)
            assert more > 10
        with bed(disk / "store") as backend:
            assert backend.store.messages.count("s") == 2 * (acked + more) + 1
            assert backend.store.admin.verify().ok


def test_a_full_disk_can_still_be_purged(tmp_path: Path) -> None:
    """The one way to make space from inside needs a line of its own, and that is all."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        if disk is None:
            print("capability mount: no; see the limit on file sizes below")
            return
        with bed(disk / "store") as backend:
            store = backend.store
            store.sessions.create(id="early")
            store.sessions.purge("early")
            fill_up(store)
            with suppress(StorageFull):
                while True:
                    store.messages.append("s", user("x"))
            assert store.sessions.purge("s").existed
            assert fill_up(store) > 10
            assert store.admin.verify().ok


def limited(say: Say, path: str, size_bytes: int) -> None:
    store = Store.open(f"file:///{path}")
    free = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, free[1]))
    acked, error = 0, ""
    try:
        for n in range(10_000):
            store.messages.append("s", user(f"{n}" * 200), create=True)
            acked += 1
    except LedgerstoneError as raised:
        error = type(raised).__name__
    resource.setrlimit(resource.RLIMIT_FSIZE, free)
    store.messages.append("s", user("goes on"))
    store.close()
    with Store.open(f"file:///{path}") as again:
        ok = again.admin.verify().ok and again.messages.count("s") == acked + 1
    say(json.dumps([error, acked, ok]).encode())


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    """Needs no rights: half a line is taken back, and the same handle goes on after."""
    child = Child(limited, str(tmp_path / "store"), 60_000)
    try:
        error, acked, ok = json.loads(next(child.hear(WAIT_S)))
    finally:
        child.kill()
    assert error == "StorageFull"
    assert acked > 10
    assert ok


# --- a disk that fails


class Short(Disk):
    """Takes half of what it is given, then nothing for a while."""

    def __init__(self) -> None:
        self.armed = 0

    def append(self, file: int, data: bytes) -> int:
        if self.armed:
            self.armed -= 1
            if self.armed:
                return super().append(file, data[: len(data) // 2])
            raise FULL
        return super().append(file, data)


def test_a_short_write_is_taken_back(path: Path) -> None:
    disk = Short()
    with bed(path, disk=disk) as backend:
        backend.store.messages.append("s", user("one"), create=True)
        file = journal_of(path, "s")
        before = file.read_bytes()
        disk.armed = 3
        with pytest.raises(StorageFull):
            backend.store.messages.append("s", user("lost"))
        assert file.read_bytes() == before
        disk.armed = 3
        with pytest.raises(StorageFull):
            backend.store.messages.append("new", user("lost"), create=True)
        assert backend.texts("s") == ["one"]
        assert backend.store.sessions.get("new") is None
        backend.store.messages.append("new", user("two"), create=True)
        backend.reopen()
        assert (backend.texts("s"), backend.texts("new")) == (["one"], ["two"])
        assert backend.store.admin.verify().ok


def test_a_short_write_that_goes_on_is_one_line(path: Path) -> None:
    class Slow(Disk):
        def append(self, file: int, data: bytes) -> int:
            return super().append(file, data[:100])

    with bed(path, disk=Slow()) as backend:
        fill(backend.store)
        assert backend.reopen().admin.verify().ok


@pytest.mark.parametrize("call", ["sync", "sync_folder"])
def test_a_failed_flush_poisons_the_handle(path: Path, call: str) -> None:
    """Once is enough: nothing later is acknowledged until the store is opened again."""
    armed = False

    def fails(name: str, count: int) -> OSError | None:
        nonlocal armed
        if armed and name == call:
            armed = False
            return BROKEN
        return None

    with bed(path, disk=Watching(fails)) as backend:
        backend.store.messages.append("s", user("one"), create=True)
        armed = True
        with pytest.raises(OutcomeUnknown) as caught:
            backend.write(commit_of("new", "t", "?"))
        assert caught.value.retryable
        before = {file: file.read_bytes() for file in path.rglob("*.jsonl")}
        for _ in range(3):
            with pytest.raises(Unavailable, match="open it again"):
                backend.store.messages.append("s", user("two"))
        assert {file: file.read_bytes() for file in path.rglob("*.jsonl")} == before
        assert backend.texts("s") == ["one"], "what was acknowledged can be read"
        health = backend.store.admin.health()
        assert not health.ok
        assert any("open it again" in text for text in health.warnings)
        backend.reopen()
        assert backend.texts("s") == ["one"]
        assert backend.write(commit_of("new", "t", "?")).turn == "t"
        assert len(backend.open(TENANT).turns.list("new")) == 1
        backend.store.messages.append("s", user("two"))
        assert backend.store.admin.verify().ok


def test_control_a_flush_that_is_not_asked_for_can_not_fail(path: Path) -> None:
    """At durability "process" nobody flushes, and health says what that means."""

    def fails(name: str, count: int) -> OSError | None:
        return BROKEN if armed and name in ("sync", "sync_folder") else None

    armed = False
    backend = open_file(str(path), durability="process", disk=Watching(fails), snapshot_lines=NEVER)
    with closing(backend):
        armed = True
        store = Store(backend)
        store.messages.append("s", user("one"), create=True)
        assert store.messages.count("s") == 1
        assert store.capabilities.durability == "process"
        assert any("power cut" in text for text in store.admin.health().warnings)


def test_half_a_line_that_can_not_be_taken_back_poisons(path: Path) -> None:
    class Stuck(Short):
        def truncate(self, file: int, size: int) -> None:
            raise BROKEN

    disk = Stuck()
    with bed(path, disk=disk) as backend:
        backend.store.messages.append("s", user("one"), create=True)
        disk.armed = 3
        with pytest.raises(OutcomeUnknown):
            backend.write(commit_of("t", "half", "half"))
        with pytest.raises(Unavailable):
            backend.store.messages.append("s", user("two"))
        (half,) = lines(path / "sessions" / "0000000002.jsonl")
        assert not half.endswith(b"\n")
    with bed(path) as backend:
        assert backend.texts("s") == ["one"]
        assert any("unfinished" in text for text in backend.store.admin.health().warnings)


CALLS = ("create", "append", "sync", "sync_folder", "truncate", "rename", "unlink")


@pytest.mark.slow
@pytest.mark.parametrize("error", [FULL, BROKEN], ids=["full", "broken"])
@pytest.mark.parametrize("call", CALLS)
def test_every_call_fails_once(path: Path, call: str, error: OSError) -> None:
    """The n-th call of a kind, for every n until none fails: the store has what it acknowledged."""
    tried = 0
    for n in range(1, 200):
        place = path.with_name(f"{call}{n}")
        told, fired = acknowledged(place, call, n, error)
        tried += fired
        with bed(place) as backend:
            assert backend.store.admin.verify().ok
            for session, texts in told.items():
                seen = backend.texts(session)
                assert seen[: len(texts)] == texts
                assert len(seen) <= len(texts) + 1
            backend.store.messages.append("a", user("goes on"), create=True)
            assert backend.reopen().admin.verify().ok
        if not fired:
            break
    assert tried == n - 1
    print(f"{call}: {tried} places")


def acknowledged(
    path: Path, call: str, n: int, error: OSError
) -> tuple[dict[str, list[str]], bool]:
    """What was acknowledged to somebody who repeats nothing and opens again when told to."""
    fired = False

    def fails(name: str, count: int) -> OSError | None:
        nonlocal fired
        if name == call and count == n and not fired:
            fired = True
            return error
        return None

    told: dict[str, list[str]] = {"a": [], "b": []}
    disk = Watching(fails)

    def opened() -> FileBackend:
        while True:
            with suppress(Unavailable):
                return open_file(str(path), clock=ManualClock(), disk=disk, snapshot_lines=2)

    backend = opened()
    for step in range(8):
        session = "ab"[step % 2]
        store = Store(backend, clock=ManualClock())
        try:
            store.messages.append(session, user(f"{step}"), create=True)
            told[session].append(f"{step}")
        except (OutcomeUnknown, Unavailable):
            backend.close()
            backend = opened()
            told[session] = [m.text for m in Store(backend).messages.history(session)]
        if step == 5:
            backend.close()
            backend = opened()
    with suppress(LedgerstoneError):
        Store(backend).sessions.create(id="gone")
        Store(backend).sessions.purge("gone")
        Store(backend).messages.append("b", user("hidden", id="h"))
        Store(backend).messages.delete("h", session="b")
        Store(backend).admin.vacuum("b")
    backend.close()
    return told, fired
