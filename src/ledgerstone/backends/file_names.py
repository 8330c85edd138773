"""Do the names still lead to the files that are open?

SQLite goes on writing into a file that was deleted or replaced: what it acknowledges then is lost
with the last descriptor. The same happens to a log that was taken away, for instance by another
SQLite library in this very process, which does not see our locks. Two stats per commit tell.
"""

from __future__ import annotations

import os


class FileNames:
    """A store file and its log, as they were when the store was opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names = (path, path + "-wal")
        self._opened = tuple(map(_identity, self._names))

    def gone(self) -> str | None:
        """What happened to them, as a sentence for people; None when all is well."""
        for name, opened in zip(self._names, self._opened, strict=True):
            if _identity(name) != opened:
                return (
                    f"{name} was deleted or replaced while the store was open; close it, restore "
                    f"{self._path} from a backup if it is not the right one, and open it again"
                )
        return None


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino
