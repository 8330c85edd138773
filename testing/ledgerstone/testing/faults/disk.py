"""A disk for SQLite that counts, fails on demand and forgets what was not flushed.

    disk = Disk(Fault("sync", 3, "once"))
    disk.watch(path.parent)
    backend = open_sqlite(str(path), vfs=disk.name)
    ...
    disk.survive(folder, Random(seed))      # the files as a power cut would leave them

It stands between SQLite and the real files as a VFS: what the process writes does go there, so a
store that merely met an error is opened again as it lies. What a power cut would leave is kept in
memory besides, and written to another folder on request, for as many seeds as wanted.

A VFS in Python shares no memory between connections, so a store on it has one. And the driver
hands every error of this layer to its caller, also those few which SQLite itself would pass over.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Literal

import apsw
import msgspec

from ledgerstone.testing.faults.survivors import Cut, Kept, Written

Kind = Literal["read", "write", "sync", "truncate", "open", "delete", "rename", "folder", "any"]
How = Literal["error", "torn", "full", "short", "once", "power"]

KINDS: tuple[Kind, ...] = ("read", "write", "sync", "truncate", "open", "delete")
CHANGING = frozenset(("write", "sync", "truncate", "open", "delete"))
GATE_WAIT_S = 30.0
NOT_OURS = ("-lock", "-shm")
BASE = "unix"
"""The layer below: real files, and none of the shims that a process may have made its default."""

_numbers = count(1)
_ERRORS = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "open": apsw.SQLITE_CANTOPEN,
    "delete": apsw.SQLITE_IOERR_DELETE,
}
_WITH_FOLDER = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


class Fault(msgspec.Struct, frozen=True):
    """What happens at the n-th operation of a kind; "any" counts all that change something.

    error   an I/O error, nothing was done        full    no space left, nothing was done
    torn    half of the bytes, then an error      short   half of the bytes, then no space
    once    a flush fails and its data is forgotten
    power   this and every later call fails: the process is gone
    """

    kind: Kind
    at: int
    how: How


class Operation(msgspec.Struct, frozen=True):
    """One line of what a disk did, for audits."""

    kind: str
    file: str
    good: bool = True


class Disk(apsw.VFS):
    """A file layer with a fault in it; `lying`: flushes say yes and do nothing."""

    def __init__(self, *faults: Fault, lying: bool = False) -> None:
        self.name = f"ledgerstone-disk-{next(_numbers)}"
        super().__init__(self.name, BASE)
        self.faults = faults
        self.lying = lying
        self.fired = ""
        self.counts: Counter[str] = Counter()
        self.log: list[Operation | str] = []
        self.dead = False
        self.over = False
        self._files: dict[str, Kept] = {}
        # Names that were made or deleted since the folder was flushed: what was there before.
        self._moved: dict[str, Kept | None] = {}
        self._gate = threading.Event()
        self._gate.set()
        self._keeper = 0
        self.waiting = False

    # --- for the harness

    def watch(self, folder: Path) -> None:
        """What lies in this folder now is durable; files that appear later are not."""
        for path in folder.iterdir():
            if path.name.endswith(NOT_OURS):
                continue  # Not written through SQLite, so nothing is known about it.
            self._files[str(path)] = Kept(bytearray(path.read_bytes()))

    def mark(self, text: str) -> None:
        """Write a line between the operations."""
        self.log.append(text)

    def shut_gate(self) -> None:
        """From now on other threads that write wait, so that commands can gather behind them."""
        self._keeper = threading.get_ident()
        self._gate.clear()

    def open_gate(self) -> None:
        self._gate.set()

    def cut_power(self) -> None:
        """From now on every call fails."""
        self.dead = True

    def survive(self, folder: Path, random: Random) -> None:
        """Write the files as they may look after a power cut at this moment."""
        names = sorted(self._files.keys() | self._moved.keys())
        for name in names:
            kept = self._files.get(name)
            if name in self._moved and random.random() < 0.5:
                kept = self._moved[name]
            if kept is not None:
                (folder / Path(name).name).write_bytes(kept.survivor(random))

    # --- what SQLite calls

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name if isinstance(name, str) else name.filename() if name is not None else ""
        self.step("open", path)
        opened = DiskFile(self, path, name, flags)
        if path not in self._files:
            self._files[path] = Kept(bytearray(Path(path).read_bytes()))
            self._moved.setdefault(path, None)
        return opened

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.step("delete", filename)
        if self.over:
            return
        super().xDelete(filename, syncdir)
        gone = self._files.pop(filename, None)
        self._moved.setdefault(filename, gone)
        if syncdir and not self.lying:
            self._moved.clear()

    def excepthook(self, *error: object) -> bool:
        """An error of ours that SQLite passes over: nobody has to hear of it."""
        return True

    # --- what the files ask

    def step(self, kind: str, path: str) -> How | None:
        """Count one operation; raises, or answers the fault that the file has to carry out."""
        if self.over:
            return None
        if kind == "write" and not self._gate.is_set() and threading.get_ident() != self._keeper:
            self.waiting = True
            self._gate.wait(GATE_WAIT_S)
            self.waiting = False
        if self.dead:
            raise apsw.exception_for(_ERRORS[kind])
        self.counts[kind] += 1
        self.counts["any"] += kind in CHANGING
        name = Path(path).name
        fault = next((one for one in self.faults if self._meets(one, kind)), None)
        self.log.append(Operation(kind, name, fault is None))
        if fault is None:
            return None
        self.fired = f"{fault.how} at {fault.kind} {fault.at}: {kind} of {name}"
        if fault.how == "error":
            raise apsw.exception_for(_ERRORS[kind])
        if fault.how == "full":
            raise apsw.exception_for(apsw.SQLITE_FULL)
        if fault.how == "power":
            self.dead = True
            if kind != "write":
                raise apsw.exception_for(_ERRORS[kind])
        return fault.how

    def _meets(self, fault: Fault, kind: str) -> bool:
        fits = fault.kind == kind or (fault.kind == "any" and kind in CHANGING)
        return fits and self.counts[fault.kind] == fault.at

    def kept(self, path: str) -> Kept:
        return self._files[path]

    def folder_flushed(self) -> None:
        """The names in the folder are durable as they are."""
        self._moved.clear()

    def is_new(self, path: str) -> bool:
        return path in self._moved


class DiskFile(apsw.VFSFile):
    """One open file of a disk."""

    def __init__(
        self, disk: Disk, path: str, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__(BASE, name, flags)
        self._disk = disk
        self._path = path
        # As SQLite's own layer does: the first flush of a new log flushes its folder too.
        self._with_folder = bool(flags[0] & _WITH_FOLDER)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._disk.step("read", self._path)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        disk = self._disk
        how = disk.step("write", self._path)
        if disk.over:
            return
        done = bytes(data[: len(data) // 2]) if how in ("short", "torn") else bytes(data)
        disk.kept(self._path).pending.append(Written(offset, done))
        super().xWrite(done, offset)
        if how == "short":
            raise apsw.exception_for(apsw.SQLITE_FULL)
        if how in ("power", "torn"):
            raise apsw.exception_for(apsw.SQLITE_IOERR_WRITE)

    def xTruncate(self, newsize: int) -> None:
        self._disk.step("truncate", self._path)
        if not self._disk.over:
            self._disk.kept(self._path).pending.append(Cut(newsize))
            super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        disk = self._disk
        how = disk.step("sync", self._path)
        if disk.over or disk.lying:
            return
        kept = disk.kept(self._path)
        if how == "once":
            kept.flush_failed()
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        kept.flush()
        if self._with_folder and disk.is_new(self._path):
            disk.folder_flushed()

    def excepthook(self, *error: object) -> bool:
        """As the disk's own."""
        return True

    def xClose(self) -> None:
        # Closing a file that was never opened, or twice, is no fault of the disk.
        with suppress(apsw.ConnectionClosedError):
            super().xClose()
