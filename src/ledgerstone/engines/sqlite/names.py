"""Do the names still lead to the files that are open?

SQLite goes on with a file that was deleted or replaced: what it acknowledges then is lost with the
last descriptor, and what it reads is old. The same happens to a log that was taken away, for
instance by another SQLite library in this very process. Two stats per commit and per read tell.
"""

from __future__ import annotations

import os

from ledgerstone.engines.sqlite.marks import HEADER_BYTES


class FileNames:
    """A store file and its log, as they were when the store was opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names = (path, path + "-wal")
        self._opened = tuple(map(_identity, self._names))
        self._found: str | None = None

    def gone(self) -> str | None:
        """What happened to them, as a sentence for people; None when all is well.

        What was gone once stays gone for this handle, whatever is put in its place.
        """
        if self._found is None:
            for name, opened in zip(self._names, self._opened, strict=True):
                if _identity(name) != opened:
                    self._found = (
                        f"{name} was deleted, replaced or cut off while the store was open; close "
                        f"it, restore {self._path} from a backup if it is not the right one, and "
                        "open it again"
                    )
        return self._found


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    # A log may be empty: another program moved all of it into the file.
    cut = found.st_size < HEADER_BYTES and not name.endswith("-wal")
    return None if cut else (found.st_dev, found.st_ino)
