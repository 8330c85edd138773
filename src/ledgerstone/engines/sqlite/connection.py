"""One connection to a SQLite file: opening, settings, statements, errors."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import apsw
import msgspec

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.sqlite.invalid_rows import find_damage
from ledgerstone.engines.sqlite.lock import FILE_MODE
from ledgerstone.engines.sqlite.rows import SqliteRows
from ledgerstone.errors import (
    BackendError,
    Busy,
    Corrupt,
    InvalidValue,
    LedgerstoneError,
    NotADatabase,
    ReadOnly,
    StorageFull,
    Timeout,
    Unavailable,
)
from ledgerstone.handlers.registry import HANDLERS
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now

BUSY_TIMEOUT_MS = 30_000
RESTORE = "`ledgerstone verify` lists the defects; restore these sessions from a copy"
STATEMENT_CACHE = 300
WAL_PAUSE_S = 0.005
# What the file layer of SQLite takes, less the longest ending that it adds.
PATH_BYTES_MAX = 500
NAME_BYTES_MAX = 245
FOLDER_MODE = 0o700


class Reader:
    """A connection that reads, and the rows that it sees."""

    __slots__ = ("connection", "execute", "patience_ms", "rows")

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.patience_ms = BUSY_TIMEOUT_MS
        self.execute = connection.execute
        self.rows = SqliteRows(connection)

    @property
    def in_transaction(self) -> bool:
        return self.connection.in_transaction

    def set_patience(self, wait_ms: int) -> None:
        """How long to wait for somebody who locks the whole file."""
        if wait_ms != self.patience_ms:
            self.connection.set_busy_timeout(wait_ms)
            self.patience_ms = wait_ms

    def close(self) -> None:
        """Let the connection go."""
        self.connection.close()


def damage_under(connection: apsw.Connection, command: Any, now_us: int) -> Corrupt | None:
    """The damaged row that a command or query trips over, in the transaction that is open; None
    when it fails by a defect of our own."""
    handler = HANDLERS[type(command)]
    tx = Tx(SqliteRows(connection), now_us)
    return find_damage(connection, lambda: run_now(handler(tx, command)))


def real_path(path: str) -> str:
    """The path without links: two names of one file share one lock."""
    try:
        real = os.path.realpath(path)
        size = len(os.fsencode(real))
        real.encode()
    except UnicodeEncodeError:
        raise InvalidValue("path", f"{path!r} is no text; rename the file") from None
    name = os.path.basename(real)
    if size > PATH_BYTES_MAX or len(os.fsencode(name)) > NAME_BYTES_MAX:
        raise InvalidValue("path", f"{real} is too long; choose a shorter one")
    if os.path.exists(real) and not os.path.isfile(real) and not os.path.isdir(real):
        raise InvalidValue("path", f"{real} is no regular file; name another one")
    return real


def prepare_folder(path: str) -> None:
    """Make the folders above a file, readable by their owner alone; what is there stays."""
    if os.path.isdir(path):
        raise InvalidValue("path", f"{path} is a directory; name a file in it")
    folder = os.path.dirname(os.path.abspath(path))
    try:
        _make_folder(folder)
    except (FileExistsError, NotADirectoryError):
        raise InvalidValue(
            "path", f"a part of {folder} is a file, not a directory; choose another path"
        ) from None
    except PermissionError as error:
        raise ReadOnly(f"cannot create {path}: {error.strerror}") from error
    except OSError as error:
        raise _from_os(error, path) from error


def prepare_file(path: str) -> None:
    """An empty file, readable by its owner alone, unless there is one."""
    if not os.path.exists(path):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, FILE_MODE))


def _make_folder(folder: str) -> None:
    """The folder and those above it, durable; os.makedirs would leave them open to everybody."""
    if not os.path.isdir(folder):
        above = os.path.dirname(folder)
        _make_folder(above)
        with suppress(FileExistsError):
            os.mkdir(folder, FOLDER_MODE)
        if not os.path.isdir(folder):
            raise FileExistsError(folder)
        flush(above)


def flush(path: str) -> None:
    """The content of a file, or the names in a folder, survive a power cut from here on."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _from_os(error: OSError, path: str) -> LedgerstoneError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageFull(f"no space left for {path}")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return ReadOnly(f"{path} cannot be written: {error.strerror}")
    return Unavailable(f"cannot open {path}: {error.strerror}; choose another path")


def connect(path: str, vfs: str | None = None) -> apsw.Connection:
    """A bare connection; settings that change the file come later."""
    flags = apsw.SQLITE_OPEN_READWRITE
    connection = apsw.Connection(path, flags=flags, vfs=vfs, statementcachesize=STATEMENT_CACHE)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    if vfs is not None:
        # A file layer from outside shares no memory between connections: this is the only one.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA temp_store = MEMORY")
    # Without it SQLite prepares some statements anew whenever other values are bound.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # Dropping a connection never moves or deletes the log: a refused file stays as it is, and a
    # forked child that ends cannot delete, by name, a log that somebody else wrote since.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.wal_autocheckpoint(0)  # Checkpoints are made with a mark in them (entry.py).
    return connection


def set_wal(connection: apsw.Connection) -> str:
    """Switch to write-ahead logging; the switch itself does not wait for others, so repeat it."""
    deadline = monotonic_s() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            return str(setting(connection, "PRAGMA journal_mode = WAL"))
        except apsw.BusyError:
            if monotonic_s() > deadline:
                raise
            time.sleep(WAL_PAUSE_S)


def setting(connection: apsw.Connection, pragma: str) -> Any:
    """The answer of a PRAGMA that was carried out to its end: some commit only then."""
    rows = connection.execute(pragma).fetchall()
    return rows[0][0] if rows else None


@contextmanager
def mapped(path: str) -> Iterator[None]:
    """What the driver raises, as what the caller can react to."""
    try:
        yield
    except FOREIGN as error:
        raise from_driver(error, path) from error


def from_driver(error: Exception, path: str) -> LedgerstoneError:
    """One error of the driver, the system or the encoding as one of ours.

    What does not decode comes from a row that none of ours would have written: text that is no
    UTF-8, JSON that does not parse. Only the kind of the error is told, since its text may quote
    what is stored.
    """
    if isinstance(error, apsw.Error):
        return translate(error, path)
    if isinstance(error, OSError):
        return _from_os(error, path)
    if isinstance(error, UnicodeEncodeError):
        return InvalidValue("text", "lone surrogates are only allowed in bodies")
    return Corrupt("database", path, "row", f"{type(error).__name__}; {RESTORE}")


FOREIGN = (apsw.Error, OSError, UnicodeError, msgspec.DecodeError, json.JSONDecodeError)
"""What the driver, the system and the decoding of stored values raise. Whatever else comes out of a
handler is a defect of our own, and stays what it is (invalid_rows.py looks twice)."""


def translate(error: apsw.Error, path: str) -> LedgerstoneError:
    """One driver error as one of ours."""
    reason = str(error)
    if isinstance(error, apsw.CantOpenError) and not _may_write(path):
        return ReadOnly(f"{path} or its folder cannot be written")
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHMSIZE:
        return StorageFull(f"no space left for {path}")
    for kind, make in _ERRORS.items():
        if isinstance(error, kind):
            found: LedgerstoneError = make(path, reason)
            return found
    return BackendError("sqlite", reason)


def _may_write(path: str) -> bool:
    return os.access(path, os.W_OK) and os.access(os.path.dirname(path), os.W_OK)


_ERRORS: dict[type[apsw.Error], Any] = {
    apsw.BusyError: lambda path, reason: Busy(f"another process holds {path}; try again"),
    apsw.LockedError: lambda path, reason: Busy(f"another connection holds {path}; try again"),
    apsw.FullError: lambda path, reason: StorageFull(f"no space left for {path}"),
    apsw.ReadOnlyError: lambda path, reason: ReadOnly(
        f"{path} cannot be written: {reason}; give it the right to be written, or copy it"
    ),
    apsw.CantOpenError: lambda path, reason: Unavailable(
        f"cannot open {path}: {reason}; remove what stands in its way, or choose another path"
    ),
    apsw.NotADBError: lambda path, reason: NotADatabase(
        f"{path} is not a database: {reason}; give the file of a store, or restore it"
    ),
    apsw.CorruptError: lambda path, reason: Corrupt(
        "database", path, "pages", f"{reason}; {RESTORE}"
    ),
    apsw.InterruptError: lambda path, reason: Timeout(f"interrupted: {reason}"),
    apsw.IOError: lambda path, reason: Unavailable(
        f"input or output failed on {path}: {reason}; copy what can be read, then check the disk"
    ),
}
