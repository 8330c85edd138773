"""A disk for stores in a directory: it counts, fails on demand and forgets what was not flushed.

    disk = FolderDisk(Fault("sync", 3, "once"))
    disk.watch(path)
    backend = open_file(str(path), disk=disk)
    ...
    disk.survive(folder, Random(seed))      # the directory as a power cut would leave it

The counterpart of `disk.py`, below the file backend instead of below SQLite. Names are as uncertain
as bytes: a file that was made, renamed or removed is there or not until its folder is flushed.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import TypeAlias

from ledgerstone.engines.file import disk as file_disk
from ledgerstone.testing.faults.disk import Disk, Fault, How, Operation
from ledgerstone.testing.faults.survivors import Cut, Kept, Written

KINDS = ("write", "sync", "truncate", "open", "delete", "rename", "folder")
_ERRORS = {"full": errno.ENOSPC, "short": errno.ENOSPC}


class FolderDisk(file_disk.Disk):
    """A file layer with a fault in it; `lying`: flushes say yes and do nothing.

    Operations: write, sync, truncate, open (a file is made), delete, rename, and folder (one is
    made, or its names are flushed).
    """

    def __init__(self, *faults: Fault, lying: bool = False) -> None:
        self.faults = faults
        self.lying = lying
        self.fired = ""
        self.counts: Counter[str] = Counter()
        self.log: list[Operation | str] = []
        self.dead = False
        self.over = False
        self._root = Path()
        self._open: dict[int, Kept] = {}
        self._files: dict[Path, Kept] = {}
        # Names that changed since their folder was flushed, folders too: what was there before.
        self._moved: dict[Path, Kept | None] = {}
        self._made: set[Path] = set()
        self._full = False
        self.waiting = False

    def random(self, count: int) -> bytes:
        return bytes(count)  # A simulation is repeated to the byte.

    # --- for the harness

    def watch(self, root: Path) -> None:
        """The directory that is going to be used; what lies in it now is durable."""
        self._root = root.resolve()
        for path in self._root.rglob("*"):
            if path.is_file():
                self._files[path] = Kept(bytearray(path.read_bytes()))

    def mark(self, text: str) -> None:
        """Write a line between the operations."""
        self.log.append(text)

    def shut_gate(self) -> None:
        """Nothing gathers behind a line of a journal: every command is flushed by itself."""
        self.waiting = True

    def open_gate(self) -> None:
        self.waiting = False

    def unregister(self) -> None:
        """It is known to nobody but the store that was given it."""

    def cut_power(self) -> None:
        """From now on every call that changes something fails."""
        self.dead = True

    def survive(self, folder: Path, random: Random) -> None:
        """Write the directory as it may look after a power cut at this moment."""
        lost = [made for made in sorted(self._made) if random.random() < 0.5]
        for path in sorted(self._files.keys() | self._moved.keys()):
            kept = self._files.get(path)
            if path in self._moved and random.random() < 0.5:
                kept = self._moved[path]
            if kept is None or any(gone in path.parents for gone in lost):
                continue
            target = folder / path.relative_to(self._root)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            target.write_bytes(kept.survivor(random))

    # --- folders

    def make_folder(self, name: str, parent: int | None = None) -> None:
        self._step("folder", name)
        super().make_folder(name, parent)
        self._made.add((Path() if parent is None else _path_of(parent)) / name)

    def sync_folder(self, folder: int) -> None:
        where = _path_of(folder)
        self._step("folder", where.name)
        if self.lying:
            return
        super().sync_folder(folder)
        self._moved = {path: was for path, was in self._moved.items() if path.parent != where}
        self._made = {path for path in self._made if path.parent != where}

    # --- files

    def create(self, folder: int, name: str) -> int:
        self._step("open", name)
        file = super().create(folder, name)
        path = _path_of(folder) / name
        self._moved.setdefault(path, self._files.get(path))
        self._open[file] = self._files[path] = Kept(bytearray())
        return file

    def open(self, folder: int, name: str) -> int:
        file = super().open(folder, name)
        path = _path_of(folder) / name
        if path not in self._files:
            self._files[path] = Kept(bytearray(path.read_bytes()))
        self._open[file] = self._files[path]
        return file

    def append(self, file: int, data: bytes) -> int:
        if self._full:
            self._full = False
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        how = self._step("write", _path_of(file).name)
        done = data[: len(data) // 2] if how in ("short", "torn") else data
        self._open[file].pending.append(Written(self.size(file), bytes(done)))
        taken = super().append(file, done)
        if how in ("power", "torn"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._full = how == "short"  # A short write is no error yet; the next one tells why.
        return taken

    def sync(self, file: int) -> None:
        how = self._step("sync", _path_of(file).name)
        if self.lying:
            return
        if how == "once":
            self._open[file].flush_failed()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(file)
        self._open[file].flush()

    def truncate(self, file: int, size: int) -> None:
        self._step("truncate", _path_of(file).name)
        super().truncate(file, size)
        self._open[file].pending.append(Cut(size))

    def rename(self, folder: int, old: str, new: str) -> None:
        self._step("rename", new)
        super().rename(folder, old, new)
        where = _path_of(folder)
        for name in (old, new):
            self._moved.setdefault(where / name, self._files.get(where / name))
        self._files[where / new] = self._files.pop(where / old)

    def unlink(self, folder: int, name: str) -> None:
        self._step("delete", name)
        super().unlink(folder, name)
        path = _path_of(folder) / name
        self._moved.setdefault(path, self._files.pop(path, None))

    # --- inside

    def _step(self, kind: str, name: str) -> How | None:
        """Count one operation; raises, or answers the fault that it has to carry out itself."""
        if self.dead:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.counts[kind] += 1
        self.counts["any"] += 1
        fault = next((one for one in self.faults if self._meets(one, kind)), None)
        self.log.append(Operation(kind, name, fault is None))
        if fault is None:
            return None
        self.fired = f"{fault.how} at {fault.kind} {fault.at}: {kind} {name}".rstrip()
        if fault.how in ("error", "full"):
            number = _ERRORS.get(fault.how, errno.EIO)
            raise OSError(number, os.strerror(number))
        if fault.how == "power":
            self.dead = True
            if kind != "write":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        return fault.how

    def _meets(self, fault: Fault, kind: str) -> bool:
        return fault.kind in (kind, "any") and self.counts[fault.kind] == fault.at


def _path_of(descriptor: int) -> Path:
    """What an open descriptor stands for: they are used again, so nobody may remember theirs."""
    link = f"/proc/self/fd/{descriptor}"
    return Path(os.readlink(link))  # noqa: PTH115 (the link alone, not where it leads to)


AnyDisk: TypeAlias = Disk | FolderDisk
