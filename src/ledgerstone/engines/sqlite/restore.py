"""Making a copy of a SQLite store that can be put in place, and putting one in place.

stamp(connection)                     a copy made by SQLite, as if it had been closed properly
with alone_with(path):                nobody of ours has the store open; Busy otherwise
    put_in_place(prepared, path)      a prepared file becomes the store, all of it or nothing
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw

from ledgerstone.engines.sqlite.connection import flush_folder, mapped, real_path
from ledgerstone.engines.sqlite.entry import Entry, set_log_aside, write_mark
from ledgerstone.engines.sqlite.marks import CLOSED, new_mark
from ledgerstone.errors import Busy


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
    flush_folder(os.path.dirname(path))
    return aside
