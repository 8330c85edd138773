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
NOTE_BYTES = 64
NO_LOG = "closed"


def flush_folder(folder: str) -> None:
    """From now on the names in this folder survive a power cut."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


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

    def claims(self, path: str) -> bool:
        """Whether the log beside a store file was written for that very file.

        The lock file says for which file a log is being written, or that there is none. A lock
        file that was copied together with its store knows nothing about the copy.
        """
        said = os.pread(self._file, NOTE_BYTES, 0).decode("ascii", "replace").split()
        if len(said) != 2 or said[0] != f"{os.fstat(self._file).st_ino}":
            return True
        # Without the device: its number may be another after a restart.
        return said[1] == f"{os.stat(path).st_ino}"

    def note_open(self, path: str) -> None:
        """From now on a log beside it belongs to this file; on disk before there is one."""
        self._note(f"{os.stat(path).st_ino}")
        os.fsync(self._file)

    def note_closed(self, path: str) -> None:
        """Whoever closes last takes the log away: what turns up later is somebody else's."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        if not os.path.exists(path + "-wal"):
            flush_folder(os.path.dirname(path))  # Otherwise a power cut could bring it back.
            self._note(NO_LOG)
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def _note(self, what: str) -> None:
        text = f"{os.fstat(self._file).st_ino} {what}".ljust(NOTE_BYTES)
        os.pwrite(self._file, text.encode("ascii"), 0)

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)
