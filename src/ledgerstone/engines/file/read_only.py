"""A store directory opened to be read: the directory stays as it is, changes stay in memory.

Opening a store that was killed cuts off a torn line, removes files of purged sessions and delivers
what commits left for other sessions. A read-only opening needs the same result without writing, so
the same code runs on a `Disk` that keeps what would be written.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys

from ledgerstone.clock import Clock
from ledgerstone.engines.file.backend import FileBackend, open_file
from ledgerstone.engines.file.disk import Disk
from ledgerstone.engines.file.folder import ABOUT
from ledgerstone.errors import NotADatabase

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_Place = tuple[int, str]


def open_file_read_only(path: str, clock: Clock) -> FileBackend:
    """Open an existing store directory without writing to it; NotADatabase when there is none.

    Busy while another process has it open to write: a directory is for one writer, and reading
    beside it would mix moments. Several may read it at once.
    """
    if not os.path.isfile(os.path.join(path, ABOUT)):
        raise NotADatabase(
            f"{path} has no {ABOUT}: there is no Ledgerstone store, and nothing was created; "
            "check the path"
        )
    never = sys.maxsize
    return open_file(
        path, clock=clock, disk=OverlayDisk(), snapshot_lines=never, snapshot_bytes=never
    )


class OverlayDisk(Disk):
    """Reads the real files; keeps in memory what would be created, changed or removed."""

    def __init__(self) -> None:
        self._changed: dict[_Place, bytes | None] = {}
        """The content of changed files by folder and name; None for a removed one."""
        self._open: dict[int, _Place] = {}
        self._created: set[int] = set()

    # --- folders

    def make_folder(self, name: str, parent: int | None = None) -> None:
        raise OSError(errno.EROFS, f"{name} is missing and is not created by reading")

    def close_to_others(self, descriptor: int) -> None:
        """Nothing: modes stay as they are."""

    def may_write(self, folder: int) -> bool:
        """Into memory, always."""
        return True

    def names(self, folder: int) -> list[str]:
        found = set(super().names(folder))
        for (where, name), data in self._changed.items():
            if where == folder:
                (found.discard if data is None else found.add)(name)
        return sorted(found)

    def is_link(self, folder: int, name: str) -> bool:
        return (folder, name) not in self._changed and super().is_link(folder, name)

    def sync_folder(self, folder: int) -> None:
        """Nothing: what is in memory goes with the process."""

    # --- files

    def create(self, folder: int, name: str) -> int:
        if self.is_there(folder, name):
            raise FileExistsError(errno.EEXIST, name)
        file = os.open(os.devnull, _READ)
        self._changed[folder, name] = b""
        self._created.add(file)
        self._open[file] = (folder, name)
        return file

    def open(self, folder: int, name: str) -> int:
        if self._changed.get((folder, name), b"") is None:
            raise FileNotFoundError(errno.ENOENT, name)
        if (folder, name) in self._changed:
            file = os.open(os.devnull, _READ)
            self._created.add(file)
        else:
            file = os.open(name, _READ, dir_fd=folder)
        self._open[file] = (folder, name)
        return file

    def size(self, file: int) -> int:
        data = self._changed.get(self._open[file])
        return super().size(file) if data is None else len(data)

    def append(self, file: int, data: bytes) -> int:
        place = self._open[file]
        self._changed[place] = self.read(*place) + data
        return len(data)

    def sync(self, file: int) -> None:
        """Nothing: what is in memory goes with the process."""

    def truncate(self, file: int, size: int) -> None:
        place = self._open[file]
        self._changed[place] = self.read(*place)[:size]

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)
        self._created.discard(descriptor)
        super().close(descriptor)

    def rename(self, folder: int, old: str, new: str) -> None:
        self._changed[folder, new] = self.read(folder, old)
        self._changed[folder, old] = None

    def unlink(self, folder: int, name: str) -> None:
        if not self.is_there(folder, name):
            raise FileNotFoundError(errno.ENOENT, name)
        self._changed[folder, name] = None

    def read(self, folder: int, name: str, start: int = 0) -> bytes:
        if (folder, name) not in self._changed:
            return super().read(folder, name, start)
        data = self._changed[folder, name]
        if data is None:
            raise FileNotFoundError(errno.ENOENT, name)
        return data[start:]

    def is_there(self, folder: int, name: str) -> bool:
        if (folder, name) in self._changed:
            return self._changed[folder, name] is not None
        return super().is_there(folder, name)

    def lock(self, file: int) -> bool:
        """Share it with other readers; False while a writer has it. Without a lock file: True."""
        if file in self._created:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
