"""A SQLite store copied while it is in use: all pages of one snapshot, some at a time."""

from __future__ import annotations

import os

import apsw

from ledgerstone.engines.sqlite.connection import Reader
from ledgerstone.engines.sqlite.lock import FILE_MODE
from ledgerstone.engines.sqlite.restore import stamp
from ledgerstone.ports.backend import Progress

STEP_PAGES = 256
"""Pages copied between two reports of progress (1 MB)."""


def copy_pages(tx: Reader, target: str, progress: Progress) -> None:
    """Write the database to a new file and flush it.

    The read transaction around all steps keeps them in one snapshot: without it SQLite begins
    anew whenever somebody commits between two steps. Writers go on meanwhile; their log only
    cannot begin anew before the copy is done.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, FILE_MODE))
    tx.execute("BEGIN")
    try:
        tx.execute("PRAGMA schema_version").fetchall()  # Takes the snapshot.
        ours = apsw.Connection(target, flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            # A copy that is interrupted is thrown away, and one that is not is flushed below.
            ours.execute("PRAGMA journal_mode = OFF")
            ours.execute("PRAGMA synchronous = OFF")
            with ours.backup("main", tx.connection, "main") as copying:
                while not copying.done:
                    copying.step(STEP_PAGES)
                    progress(copying.page_count - copying.remaining, copying.page_count)
        finally:
            ours.close()
    finally:
        tx.execute("ROLLBACK")
    finished = apsw.Connection(target, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        stamp(finished)
    finally:
        finished.close()
    flush_file(target)


def flush_file(path: str) -> None:
    """The content of a file survives a power cut from here on."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
