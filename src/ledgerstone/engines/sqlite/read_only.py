"""A SQLite store opened to be read: nothing is written, neither to the file nor beside it.

SQLite reads a file with a log through a shared index (-shm). While somebody has the store open,
that is used, and each read sees the newest commit. Otherwise nothing is made or touched:

    shared    the store is open elsewhere: an ordinary read, with SQLite's locks
    closed    no log: the file alone, without locks
    left      a log that a kill left, or whose index cannot be used on this medium: file and log,
              the index in memory, without locks

Without locks a read counts only if neither file nor log changed meanwhile; else it is repeated.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import apsw

from ledgerstone.clock import Clock, monotonic_s
from ledgerstone.commands import Query
from ledgerstone.engines.read_only import RefusingWrites
from ledgerstone.engines.sqlite.backend import check_file, read_cursor_key
from ledgerstone.engines.sqlite.backup import copy_pages
from ledgerstone.engines.sqlite.changes import SqliteChanges
from ledgerstone.engines.sqlite.connection import (
    BUSY_TIMEOUT_MS,
    FOREIGN,
    STATEMENT_CACHE,
    Reader,
    from_driver,
    mapped,
    real_path,
    setting,
)
from ledgerstone.engines.sqlite.entry import LOG_MISMATCHES, corrupt
from ledgerstone.engines.sqlite.lock import refuse_links
from ledgerstone.engines.sqlite.marks import Log, find_log_mismatch, read_mark
from ledgerstone.engines.sqlite.reads import (
    IDLE_READERS_MAX,
    SqliteReads,
    in_snapshot,
    read_snapshot,
    warnings_of,
)
from ledgerstone.errors import (
    Busy,
    NotADatabase,
    SchemaTooOld,
    Unavailable,
)
from ledgerstone.ports.backend import Progress
from ledgerstone.records.reports import Health
from ledgerstone.sql.migrate import newest

A = TypeVar("A")

SHARED, CLOSED, LEFT = "shared", "closed", "left"
SETTLE_S = 1.0
"""How long file and log of a store in use may look as if they did not fit, in seconds."""
SETTLE_PAUSE_S = 0.005
READS_MAX = 10
"""Maximum attempts at one read while files that are read without locks keep changing."""
_Stamp = tuple[int, ...]


class View(NamedTuple):
    """Which way the store is read, and the state of its files that such a read is good for."""

    way: str
    file: _Stamp
    log: _Stamp


def open_sqlite_read_only(path: str, clock: Clock) -> ReadOnlySqlite:
    """Open an existing store file without writing.

    NotADatabase when there is none, or an empty one; SchemaTooOld, SchemaTooNew, Corrupt.
    """
    path = real_path(path)
    refuse_links(path)
    if not os.path.isfile(path) or not os.path.getsize(path):
        what = "is empty" if os.path.isfile(path) else "is no file"
        raise NotADatabase(
            f"{path} {what}: there is no store, and nothing was created; check the path, or "
            "restore a backup (`ledgerstone restore`)"
        )
    with mapped(path):
        refuse_log_mismatch(path)
        backend = ReadOnlySqlite(path, clock)
        try:
            backend.check()
        except BaseException:
            backend.close()
            raise
    return backend


class ReadOnlySqlite(RefusingWrites, SqliteReads):
    """A store in one file that is only read."""

    def __init__(self, path: str, clock: Clock) -> None:
        super().__init__(path, clock, "power", _FileChanges(path))
        self.cursor_key = b""
        self._index_readable = True
        self._pool = threading.Lock()
        self._view: View | None = None
        self._identity = _stamp(path)[:2]

    @property
    def path(self) -> str:
        """Where its file lies; no lock of ours says that somebody reads it."""
        return self._path

    def check(self) -> None:
        """Refuse what is no store of this version."""

        def look(tx: Reader) -> None:
            check_file(tx.connection, self._path)
            version = setting(tx.connection, "PRAGMA user_version")
            if not version:
                raise NotADatabase(
                    f"{self._path} has no schema: it is not a store, or only a part of a copy; "
                    "restore a backup (`ledgerstone restore`)"
                )
            if version < newest("sqlite"):
                hint = "open it once to write, which migrates it"
                raise SchemaTooOld(f"the schema of {self._path}", version, newest("sqlite"), hint)
            self.cursor_key = read_cursor_key(tx.connection)

        self._stable(look)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """Answer all queries from one snapshot."""
        self._check_usable()
        return self._stable(lambda tx: read_snapshot(tx, queries, self._clock))

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """The same in a thread."""
        self._check_usable()
        return await self._threads.run(self.read, queries)  # type: ignore[no-any-return]

    def health(self) -> Health:
        """What can be said without writing."""
        self._check_usable()
        durability = self._capabilities.durability
        return Health(
            backend="sqlite",
            ok=True,
            durability=durability,
            schema=newest("sqlite"),
            version=apsw.sqlite_lib_version(),
            warnings=warnings_of(self._path, durability),
        )

    def backup(self, target: str, progress: Progress) -> None:
        self._check_usable()

        def copy(tx: Reader) -> None:
            with suppress(FileNotFoundError):
                os.unlink(target)  # Of an attempt under which the files changed.
            copy_pages(tx, target, progress)

        self._stable(copy)

    # --- inside

    def _find_out(self, work: Callable[[Reader], A]) -> A:
        return self._stable(lambda tx: in_snapshot(tx, work))

    def _release(self) -> None:
        with self._pool:
            self._drop_idle()

    def _stable(self, work: Callable[[Reader], A]) -> A:
        """The result of work on a connection, over files that did not change under it."""
        for _ in range(READS_MAX):
            view = self._look()
            try:
                answer = self._use(view, work)
            except FOREIGN as error:
                if self._try_without_index(error, view) or self._moved(view):
                    continue
                raise from_driver(error, self._path) from error
            if not self._moved(view):
                return answer
        raise Busy(f"{self._path} changed during {READS_MAX} reads; try again")

    def _look(self) -> View:
        """How to read at this moment; Unavailable when another file took the place of ours."""
        file, log = _stamp(self._path), _stamp(self._path + "-wal")
        if file[:2] != self._identity:
            raise Unavailable(
                f"{self._path} was deleted or replaced while the store was open; close it and "
                "open it again"
            )
        if not log or (not log[2] and not self._is_shared()):
            return View(CLOSED, file, log)
        return View(SHARED, (), ()) if self._is_shared() else View(LEFT, file, log)

    def _is_shared(self) -> bool:
        """Whether somebody has the store open, and the index of the log can be used with him."""
        has_index = self._index_readable and os.path.exists(self._path + "-shm")
        return has_index and is_open(self._path)

    def _moved(self, view: View) -> bool:
        return view.way != SHARED and self._look() != view

    def _try_without_index(self, error: Exception, view: View) -> bool:
        """Whether SQLite needs to write to the index and cannot: then it is read without."""
        if view.way != SHARED or not isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError):
            return False
        self._index_readable = False
        return True

    def _use(self, view: View, work: Callable[[Reader], A]) -> A:
        tx = self._take(view)
        try:
            return work(tx)
        finally:
            with self._pool:
                self._idle.append(tx)
                if view != self._view or self._closed:
                    self._drop_idle()
                elif len(self._idle) > IDLE_READERS_MAX:
                    self._idle.pop().close()

    def _take(self, view: View) -> Reader:
        """A connection for this view; those of an older one hold old pages, and are closed."""
        with self._pool:
            if view != self._view:
                self._drop_idle()
                self._view = view
            with suppress(IndexError):
                return self._idle.pop()
        return Reader(_connect(self._path, view.way))

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


class _FileChanges(SqliteChanges):
    """Commits seen by the times and sizes of the files: no connection stays open for it."""

    def __init__(self, path: str) -> None:
        super().__init__(_no_connection, path)
        self._seen: tuple[_Stamp, _Stamp] | None = None

    def _compare(self) -> None:
        stamps = _stamp(self._path), _stamp(self._path + "-wal")
        if stamps != self._seen:
            self._seen = stamps
            self._others += 1
            self._wake_all()


def _no_connection() -> Reader:
    raise AssertionError("the files themselves are looked at")


def is_open(path: str) -> bool:
    """Whether anybody of ours has the store open; nothing is written to find out."""
    try:
        file = os.open(path + "-lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def refuse_log_mismatch(path: str) -> None:
    """Corrupt when the log and the file do not belong together; for who reads without entering.

    Beside a living store the two are looked at again: a checkpoint may be under way.
    """
    deadline = monotonic_s() + SETTLE_S
    while True:
        mark = read_mark(path)
        with Log(path + "-wal") as log:
            mismatch = find_log_mismatch(mark, log)
        living = is_open(path)
        if mismatch is None or (mismatch == "copy" and living):
            return
        if not living or monotonic_s() > deadline:
            raise corrupt(path, "log", LOG_MISMATCHES[mismatch].format(path=path))
        time.sleep(SETTLE_PAUSE_S)


def _connect(path: str, way: str) -> apsw.Connection:
    flags, vfs, name = apsw.SQLITE_OPEN_READONLY, None, path
    if way == CLOSED:
        flags |= apsw.SQLITE_OPEN_URI
        name = f"file:{quote(path)}?immutable=1"
    elif way == LEFT:
        vfs = _left_vfs().vfs_name
    connection = apsw.Connection(name, flags=flags, vfs=vfs, statementcachesize=STATEMENT_CACHE)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    if way == LEFT:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # Keeps the index in memory.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA query_only = 1")
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection


class _LeftVfs(apsw.VFS):
    """Files without locks, which an exclusive connection would ask for, and all of them read-only.

    SQLite itself would open a log to be written.
    """

    vfs_name = "ledgerstone-read-only"

    def __init__(self) -> None:
        super().__init__(self.vfs_name, "unix-none", maxpathname=0)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        flags[0] &= ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        flags[0] |= apsw.SQLITE_OPEN_READONLY
        if flags[0] & apsw.SQLITE_OPEN_WAL:
            # Of a log SQLite changes the owner, as root; of this kind of file it does not.
            flags[0] ^= apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
        return apsw.VFSFile("unix-none", name, flags)


@cache
def _left_vfs() -> _LeftVfs:
    return _LeftVfs()


def _stamp(path: str) -> _Stamp:
    """What changes when a file is written or replaced; empty when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
