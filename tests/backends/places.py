"""Places that cannot be written, or that are full: made for a test and taken away after it.

Root may write everywhere, so what a place forbids is tried in a child that is nobody.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from ledgerstone import Store, user
from ledgerstone.errors import LedgerstoneError
from ledgerstone.testing.faults.processes import Child, Say

NOBODY = 65534
WAIT_S = 60.0
MEMORY = "/dev/shm"


class Tried(msgspec.Struct):
    """How far somebody got with a store, and what stopped him."""

    error: str = ""
    text: str = ""
    acked: int = 0
    kept: int = 0
    ok: bool = False


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path | None]:
    """A file system of this size; None where this process may not mount one."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={size},mode=700", "ledgerstone-test"]
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, check=False)
    if done.returncode != 0:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def quick_disk(folder: Path) -> Iterator[Path]:
    """A folder in memory where there is one, for what does not ask how fast a disk flushes."""
    if not os.access(MEMORY, os.W_OK):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="ledgerstone-", dir=MEMORY) as made:
        yield Path(made)


def make_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def as_nobody(path: Path) -> Tried:
    """What somebody without rights gets when he opens a store, reads it and writes to it."""
    return _heard(Child(_visit, str(path)))


def under_a_limit(path: Path, size_bytes: int) -> Tried:
    """Commit in a process whose files may not grow beyond this, until that stops it."""
    return _heard(Child(_fill, str(path), size_bytes))


def _heard(child: Child) -> Tried:
    try:
        for data in child.hear(WAIT_S):
            return msgspec.json.decode(data, type=Tried)
        raise AssertionError("the child said nothing")
    finally:
        child.kill()


def _visit(say: Say, path: str) -> None:
    # What is imported lazily must be there before: nobody may not read our site-packages.
    with tempfile.TemporaryDirectory() as folder, Store.open(f"{folder}/warm.db") as store:
        store.messages.append("s", user("x"), create=True)
        store.messages.history("s")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    found = Tried()
    try:
        with Store.open(path) as store:
            found.kept = len(store.messages.history("s"))
            store.messages.append("s", user("from nobody"), create=True)
            found.acked += 1
    except Exception as error:
        found.error, found.text = type(error).__name__, str(error)
    say(msgspec.json.encode(found))


def _fill(say: Say, path: str, size_bytes: int) -> None:
    found = Tried()
    store = Store.open(path)
    free = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, free[1]))
    try:
        for n in range(10_000):
            store.messages.append("s", user(f"{n}" * 200), create=True)
            found.acked += 1
    except LedgerstoneError as error:
        found.error, found.text = type(error).__name__, str(error)
    found.kept = len(store.messages.history("s"))
    store.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, free)
    with Store.open(path) as again:
        again.messages.append("s", user("goes on"))
        found.ok = again.admin.verify().ok and again.messages.count("s") == found.acked + 1
    say(msgspec.json.encode(found))
