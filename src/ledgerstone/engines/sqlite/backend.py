"""SQLite: one file, one writer per process with group commit, readers on their own connections."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import apsw

from ledgerstone.clock import Clock, SystemClock
from ledgerstone.commands import Command, Query
from ledgerstone.engines.sqlite.backup import copy_pages
from ledgerstone.engines.sqlite.changes import SqliteChanges
from ledgerstone.engines.sqlite.connection import (
    BUSY_TIMEOUT_MS,
    FOREIGN,
    Reader,
    connect,
    from_driver,
    mapped,
    prepare_file,
    prepare_folder,
    real_path,
    set_wal,
    setting,
)
from ledgerstone.engines.sqlite.entry import Entry, lift_schema_number
from ledgerstone.engines.sqlite.marks import APPLICATION_ID
from ledgerstone.engines.sqlite.names import FileNames
from ledgerstone.engines.sqlite.reads import (
    IDLE_READERS_MAX,
    SqliteReads,
    in_snapshot,
    is_brief,
    read_snapshot,
    warnings_of,
)
from ledgerstone.engines.sqlite.writer import Writer
from ledgerstone.errors import (
    Busy,
    InvalidValue,
    NotADatabase,
    NotSupported,
    ReadOnly,
    SchemaTooNew,
    StoreClosed,
    Unavailable,
)
from ledgerstone.handlers.registry import handler_of
from ledgerstone.ports.backend import Progress
from ledgerstone.records.reports import Health
from ledgerstone.sql.catalogue import load
from ledgerstone.sql.cursors import cursor_key
from ledgerstone.sql.migrate import migrations, newest

A = TypeVar("A")

DURABILITY = {"power": 2, "process": 1}


def open_sqlite(
    path: str,
    *,
    durability: str | None = None,
    clock: Clock | None = None,
    vfs: str | None = None,
    accept_loss: bool = False,
) -> SqliteBackend:
    """Open or create a store file; refuses less durability than was asked for.

    `vfs` names a file layer that was registered with SQLite: fault tests put theirs here. Such a
    store can be written to and not read from, since its one connection is the writer's.
    `accept_loss`: open also what lost its log or its file, with what is left.
    """
    level = durability or "power"
    if level not in DURABILITY:
        raise InvalidValue("durability", f"sqlite knows power and process, not {level!r}")
    path = real_path(path)
    prepare_folder(path)
    with mapped(path):
        entry = Entry(path, vfs)
        try:
            entry.check(accept_loss=accept_loss)
            connection, key = _begin(entry, level)
        except BaseException:
            entry.refuse()
            raise
    return SqliteBackend(connection, level, clock or SystemClock(), entry, key)


def _begin(entry: Entry, durability: str) -> tuple[apsw.Connection, bytes]:
    """The writer's connection, on a file with our schema and a new generation; its cursor key."""
    path = entry.path
    had_log = os.path.exists(path + "-wal")
    prepare_file(path)
    connection = connect(path, entry.vfs)
    try:
        check_file(connection, path)
        if not setting(connection, "PRAGMA user_version"):
            migrate(connection)  # Before there is a log: a new file is made all at once, or not.
        if entry.alone and not had_log:
            lift_schema_number(connection)
        _configure(connection, path, durability)
    except BaseException:
        if entry.alone and not had_log:
            # No log of theirs is there to be moved: SQLite may take its own empty one away.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        connection.close()
        raise
    try:
        entry.begin(connection)
        with entry.taking_turns():
            migrate(connection)
        return connection, read_cursor_key(connection)
    except BaseException:
        connection.close()
        raise


def read_cursor_key(connection: apsw.Connection) -> bytes:
    """The key that signs the cursors of this store."""
    return cursor_key(connection.execute(load("sqlite")["cursor_halves"].text).fetchall())


def check_file(connection: apsw.Connection, path: str) -> None:
    """Refuse what is not ours or too new, before anything is written."""
    # One snapshot: another process may be making this very file at the moment.
    connection.execute("BEGIN")
    try:
        version = setting(connection, "PRAGMA user_version")
        owner = setting(connection, "PRAGMA application_id")
        tables = setting(connection, "PRAGMA schema_version")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    if owner not in (0, APPLICATION_ID) or (tables and owner != APPLICATION_ID):
        raise NotADatabase(
            f"{path} is a database of another program and was not touched; give that of a store"
        )
    if version > newest("sqlite"):
        raise SchemaTooNew(f"the schema of {path}", version, newest("sqlite"))


def _configure(connection: apsw.Connection, path: str, durability: str) -> None:
    """Set what durability needs, then read back what is really in force."""
    mode = set_wal(connection)
    if mode != "wal":
        raise NotSupported(f"write-ahead logging on {path}", "sqlite", f"the file says {mode}")
    wanted = DURABILITY[durability]
    connection.execute(f"PRAGMA synchronous = {wanted}")
    connection.execute("PRAGMA fullfsync = 1")  # macOS: a plain fsync does not reach the platter.
    if setting(connection, "PRAGMA synchronous") < wanted:
        raise NotSupported(f"durability {durability}", "sqlite", "synchronous was refused")


def migrate(connection: apsw.Connection) -> None:
    """Bring the file to the schema this code knows, one transaction per step."""
    while setting(connection, "PRAGMA user_version") < newest("sqlite"):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been faster while we waited for the lock.
            version = setting(connection, "PRAGMA user_version")
            for step in migrations("sqlite")[version : version + 1]:
                connection.execute(step.text)
                connection.execute(f"PRAGMA user_version = {step.version}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


class SqliteBackend(SqliteReads):
    """A store in one file."""

    def __init__(
        self,
        connection: apsw.Connection,
        durability: str,
        clock: Clock,
        entry: Entry,
        key: bytes,
    ) -> None:
        changes = SqliteChanges(self._take_reader, entry.path)
        super().__init__(entry.path, clock, durability, changes)
        self._names = FileNames(entry.path)
        self._writer = Writer(connection, clock, entry, self._names, changes.tell)
        self.cursor_key = key

    def write(self, command: Command[A]) -> A:
        self._check_known(command)
        return self._writer.write(command)  # type: ignore[no-any-return]

    async def awrite(self, command: Command[A]) -> A:
        self._check_known(command)
        return await self._writer.awrite(command)  # type: ignore[no-any-return]

    def read(self, queries: Sequence[Query[Any]], *, wait_ms: int = BUSY_TIMEOUT_MS) -> list[Any]:
        self._check_usable()
        tx = None
        try:
            tx = self._take_reader()
            tx.set_patience(wait_ms)
            answers = read_snapshot(tx, queries, self._clock)
        except FOREIGN as error:
            self._check_names(error)
            raise from_driver(error, self._path) from error
        finally:
            if tx is not None:
                self._give_back(tx)
        # Afterwards: files that are still in their place were there while they were read.
        self._check_names()
        return answers

    def _check_names(self, cause: Exception | None = None) -> None:
        """Unavailable when the store no longer lies where it was opened."""
        if (gone := self._names.gone()) is not None:
            if self._closed:  # Closing it tidies its log away.
                raise StoreClosed(f"the store {self._path} is closed") from cause
            raise Unavailable(gone) from cause

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        self._check_usable()
        if len(queries) == 1 and is_brief(queries[0]):
            with suppress(Busy):
                return self.read(queries, wait_ms=0)
        return await self._threads.run(self.read, queries)  # type: ignore[no-any-return]

    def _take_reader(self) -> Reader:
        """A connection for one reader at a time; idle ones are used again."""
        try:
            return self._idle.pop()
        except IndexError:
            # A file that took the name would be opened with the index of our log, and cut it short
            # under those who read.
            self._check_names()
            connection = connect(self._path)
            connection.execute("PRAGMA query_only = 1")
            return Reader(connection)

    def _give_back(self, tx: Reader) -> None:
        if len(self._idle) >= IDLE_READERS_MAX:
            tx.close()
            return
        self._idle.append(tx)
        if self._closed:
            self._close_idle()

    def _find_out(self, work: Callable[[Reader], A]) -> A:
        with mapped(self._path):
            tx = self._take_reader()
            try:
                answer = in_snapshot(tx, work)
            finally:
                self._give_back(tx)
        self._check_names()
        return answer

    def _close_idle(self) -> None:
        """Close what nobody uses; a connection in use is closed by its reader, who comes later."""
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def health(self) -> Health:
        self._check_usable()
        folder = os.path.dirname(os.path.abspath(self._path))
        if (lost := self._writer.lost()) is not None:
            raise Unavailable(lost)
        if not os.access(folder, os.W_OK):
            raise ReadOnly(f"{folder} cannot be written")
        with mapped(self._path):
            schema = self._writer.run_alone(_try_to_write)
        return Health(
            backend="sqlite",
            ok=True,
            durability=self._capabilities.durability,
            schema=schema,
            version=apsw.sqlite_lib_version(),
            warnings=warnings_of(self._path, self._capabilities.durability),
        )

    def backup(self, target: str, progress: Progress) -> None:
        self._check_usable()
        if (lost := self._writer.lost()) is not None:
            raise Unavailable(lost)
        with mapped(self._path):
            tx = self._take_reader()
            try:
                copy_pages(tx, target, progress)
            finally:
                self._give_back(tx)

    def _release(self) -> None:
        self._close_idle()
        with mapped(self._path):
            self._writer.close()

    def _check_known(self, command: Command[Any]) -> None:
        self._check_usable()
        if handler_of(type(command)) is None:
            raise NotSupported(type(command).__name__, "sqlite")


def _try_to_write(connection: apsw.Connection) -> int:
    """Take the write lock and let it go: proves that writing works and leaves no trace."""
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")
    return int(setting(connection, "PRAGMA user_version"))
