"""Copies of a SQLite store: made while it is in use, and put in its place.

copy_pages(tx, target, progress)      all pages of one snapshot, some at a time
with alone_with(path):                nobody of ours has the store open; Busy otherwise
    put_in_place(prepared, path)      a prepared file becomes the store, all of it or nothing
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw

from ledgerstone.engines.sqlite.connection import Reader, flush, mapped, real_path
from ledgerstone.engines.sqlite.entry import Entry, set_log_aside, write_mark
from ledgerstone.engines.sqlite.lock import FILE_MODE
from ledgerstone.engines.sqlite.marks import CLOSED, new_mark
from ledgerstone.errors import Busy
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
    flush(target)


def stamp(connection: apsw.Connection) -> None:
    """Give a copy a generation of its own: no log that lies anywhere is taken for its log.

    For the target of an online backup or of VACUUM INTO, before anybody opens it as a store. One
    commit; the connection must be the only one on the file.
    """
    write_mark(connection, new_mark(CLOSED))


@contextmanager
def alone_with(path: str) -> Iterator[None]:
    """Nobody of ours has the store open, or opens it, while this lasts; Busy when somebody has."""
    path = real_path(path)
    with mapped(path):
        entry = Entry(path)
        try:
            if not entry.alone:
                raise Busy(f"{path} is open; stop whoever uses it, then try again")
            yield
        finally:
            entry.close()


def put_in_place(prepared: str, path: str) -> str | None:
    """Let a prepared file become the store; the name under which the old log was kept, if any.

    Only inside `alone_with(path)`. `prepared` is a whole store file in the same folder, stamped,
    flushed and closed. Killed at any moment, the place holds the old store, the new one, or a pair
    that is refused at opening: then do it again.
    """
    path = real_path(path)
    aside = set_log_aside(path)
    with suppress(FileNotFoundError):
        os.unlink(path + "-shm")
    os.replace(prepared, path)
    flush(os.path.dirname(path))
    return aside
