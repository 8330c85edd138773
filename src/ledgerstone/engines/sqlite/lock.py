"""Locks of our own beside a SQLite file, which no other library can take away.

SQLite's POSIX locks belong to the process: when another SQLite library in it closes the file, they
are gone. `flock` belongs to the open file. Two files have one each (docs/adr/0007):

    agent.db-lock   shared by everybody who has the store open; alone: to judge or delete the log
    agent.db-turn   one at a time: who writes or makes a checkpoint
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
import weakref

from ledgerstone.clock import monotonic_s
from ledgerstone.errors import InvalidValue

FIRST_PAUSE_S = 0.0001
LONGEST_PAUSE_S = 0.002
FILE_MODE = 0o600
BESIDE = ("-lock", "-turn", "-wal", "-shm", "-journal")
STAMP = b"A Ledgerstone store lives beside this file.\n"


class FileLock:
    """A lock between processes and between handles of one process, on a file of its own."""

    def __init__(self, path: str) -> None:
        self.path = path
        # Never on the database itself: closing its descriptor would drop SQLite's POSIX locks.
        self._file = os.open(
            path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, FILE_MODE
        )
        _opened.add(self)
        try:
            refuse_link(path, os.fstat(self._file))
        except BaseException:
            self.close()
            raise

    def acquire(self, wait_s: float, *, shared: bool = False) -> bool:
        """Whether it was had in time. Who fails has nothing, also not what was held before."""
        wanted = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
        pause_s, deadline = FIRST_PAUSE_S, 0.0
        while True:
            try:
                fcntl.flock(self._file, wanted)
                return True
            except BlockingIOError:
                now = monotonic_s()
                deadline = deadline or now + wait_s
                if now >= deadline:
                    return False
                time.sleep(pause_s)
                pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)

    def release(self) -> None:
        """Let the next one in."""
        # Without asking whether it is held: an interrupt may have come right after the grant.
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def is_current(self) -> bool:
        """Whether its name still leads to it: somebody may have removed it while we waited."""
        try:
            there = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(self._file))

    def is_stamped(self) -> bool:
        """Whether a store was finished beside it."""
        return os.fstat(self._file).st_size > 0

    def stamp(self) -> None:
        """From now on a store that is missing beside it is missed."""
        if not self.is_stamped():
            os.pwrite(self._file, STAMP, 0)
            os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file and of the lock; closing twice is fine."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
        _opened.discard(self)


def refuse_links(path: str) -> None:
    """InvalidValue for anything but plain files where a store keeps its own beside the database."""
    for end in BESIDE:
        try:
            found = os.stat(path + end, follow_symlinks=False)
        except FileNotFoundError:
            continue
        refuse_link(path + end, found)


def refuse_link(path: str, found: os.stat_result) -> None:
    """A planted link would let us write into whatever it leads to."""
    if stat.S_ISREG(found.st_mode) and found.st_nlink <= 1:
        return
    what = "has a second name (a hard link)"
    if not stat.S_ISREG(found.st_mode):
        what = "is a symbolic link" if stat.S_ISLNK(found.st_mode) else "is no regular file"
    raise InvalidValue("path", f"{path} {what} and was not touched; move it away, then open again")


_opened: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """A forked child lets go at once: it would keep the locks when its parent is gone."""
    for lock in list(_opened):
        lock.close()


os.register_at_fork(after_in_child=_leave_to_parent)
