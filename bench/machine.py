"""The machine a run was made on: without it no absolute number means anything."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from pathlib import Path

import apsw
import msgspec

SYNCS = 60
PAGE_BYTES = 4096
SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


class Machine(msgspec.Struct, frozen=True):
    cores: int
    python: str
    sqlite: str
    apsw: str
    standard_sqlite: str
    standard_synchronous: str
    system: str
    filesystem: str
    fsync_ms: float
    load_1m: float

    def __str__(self) -> str:
        return (
            f"{self.cores} cores, {self.system}, Python {self.python}, SQLite {self.sqlite} "
            f"(apsw {self.apsw}; the peers use Python's own {self.standard_sqlite}), "
            f"{self.filesystem}, fdatasync of one page {self.fsync_ms:.2f} ms, "
            f"load {self.load_1m:.1f} at the start"
        )

    def short(self) -> str:
        """One line below a chart."""
        return (
            f"{self.cores} cores, Python {self.python}, SQLite {self.sqlite}, {self.filesystem}, "
            f"fdatasync {self.fsync_ms:.2f} ms"
        )


def describe(directory: Path) -> Machine:
    return Machine(
        cores=len(os.sched_getaffinity(0)),
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        apsw=apsw.apsw_version(),
        standard_sqlite=sqlite3.sqlite_version,
        standard_synchronous=standard_synchronous(directory),
        system=f"{platform.system()} {platform.release()}",
        filesystem=filesystem(directory),
        fsync_ms=fsync_ms(directory),
        load_1m=os.getloadavg()[0],
    )


def standard_synchronous(directory: Path) -> str:
    """What a connection of the standard library has in WAL mode when nobody sets it."""
    path = directory / "synchronous"
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode = wal")
    (level,) = connection.execute("pragma synchronous").fetchone()
    connection.close()
    path.unlink()
    return SYNCHRONOUS[level]


def fsync_ms(directory: Path) -> float:
    """The median time to make one more page of a file durable."""
    return statistics.median(syncs_ms(directory, SYNCS))


def syncs_ms(directory: Path, count: int) -> list[float]:
    """How long it takes, `count` times, to make one more page of a new file durable."""
    path = directory / "fsync"
    times = []
    with path.open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(b"x" * PAGE_BYTES)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - start) * 1000)
    path.unlink()
    return times


def filesystem(directory: Path) -> str:
    """The type of file system below a directory; on tmpfs nothing here would mean anything."""
    best, kind = "", "unknown file system"
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8")
    except OSError:
        return kind
    where = str(directory.resolve())
    for line in mounts.splitlines():
        _, mount, found, *_ = line.split(" ")
        inside = where == mount or where.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, found
    return kind
