"""A lock between processes that take turns at writing one file.

SQLite's own waiting is a sleep that grows; asking here first halves the tail (docs/adr/0007). It
is a courtesy, not a guarantee: after its deadline a writer goes on and SQLite decides.
"""

from __future__ import annotations

import fcntl
import os
import time

from ledgerstone.clock import monotonic_s

WAIT_S = 1.0
FIRST_PAUSE_S = 0.0001
LONGEST_PAUSE_S = 0.002


class FileLock:
    """An exclusive lock on a file of its own, never on the database file itself."""

    def __init__(self, path: str) -> None:
        # Closing any descriptor of the database file would drop SQLite's POSIX locks.
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def acquire(self) -> None:
        """Wait for the others, at most a second: one that was stopped must not stop us."""
        pause_s, deadline = FIRST_PAUSE_S, 0.0
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                now = monotonic_s()
                deadline = deadline or now + WAIT_S
                if now > deadline:
                    return
                time.sleep(pause_s)
                pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)

    def release(self) -> None:
        """Let the next one write."""
        # Without asking whether it is held: an interrupt may have come right after the grant.
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)
