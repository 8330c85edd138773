"""The courtesy lock between processes: exclusive, patient for a second, never in the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledgerstone.backends import file_lock
from ledgerstone.backends.file_lock import FileLock
from ledgerstone.clock import monotonic_s

HOLD = """
import sys, time
from ledgerstone.backends.file_lock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db-lock")


@pytest.fixture
def holder(path: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its input ends."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    with child:
        yield child
        child.kill()


def free(path: str) -> bool:
    """Whether somebody else could take the lock now."""
    import fcntl

    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)


def test_it_is_exclusive_and_given_back(path: str) -> None:
    with closing(FileLock(path)) as lock:
        assert free(path)
        lock.acquire()
        assert not free(path)
        lock.release()
        assert free(path)
        lock.acquire()
    assert free(path)


def test_giving_back_what_one_does_not_hold_is_fine(path: str) -> None:
    with closing(FileLock(path)) as lock, closing(FileLock(path)) as other:
        lock.release()
        other.acquire()
        lock.release()
        assert not free(path), "somebody else's lock was taken away"


def test_acquiring_twice_is_holding_once(path: str) -> None:
    with closing(FileLock(path)) as lock:
        lock.acquire()
        lock.acquire()
        lock.release()
        assert free(path)


def test_the_file_is_the_owners_alone_and_not_inherited(path: str) -> None:
    old = os.umask(0)
    try:
        with closing(FileLock(path)) as lock:
            assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
            assert not os.get_inheritable(lock._file)
    finally:
        os.umask(old)


def test_who_waits_gets_it_when_it_is_free(path: str) -> None:
    with closing(FileLock(path)) as first, closing(FileLock(path)) as second:
        first.acquire()
        got: list[float] = []

        def wait() -> None:
            second.acquire()
            got.append(monotonic_s())

        thread = threading.Thread(target=wait)
        thread.start()
        threading.Event().wait(0.05)
        assert not got
        released = monotonic_s()
        first.release()
        thread.join()
        assert got[0] - released < 0.5
        assert not free(path)


def test_one_that_was_stopped_stops_nobody(
    path: str, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its deadline a writer goes on without the lock: SQLite decides then."""
    monkeypatch.setattr(file_lock, "WAIT_S", 0.1)
    with closing(FileLock(path)) as lock:
        start = monotonic_s()
        lock.acquire()
        assert 0.1 <= monotonic_s() - start < 2
        lock.release()
        assert not free(path), "the other process still holds it"


def test_one_that_dies_gives_it_back(path: str, holder: subprocess.Popen[str]) -> None:
    with closing(FileLock(path)) as lock:
        assert not free(path)
        holder.kill()
        holder.wait()
        start = monotonic_s()
        lock.acquire()
        assert monotonic_s() - start < 0.5
