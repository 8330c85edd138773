"""Databases of others, opened to be read only: a SQLite file or a PostgreSQL server."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import apsw

from ledgerstone.errors import (
    Busy,
    Corrupt,
    LedgerstoneError,
    NotADatabase,
    NotSupported,
    ReadOnly,
    Unavailable,
)
from ledgerstone.sql.catalogue import parse

BUSY_MS = 5000
_SERVER = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")
_FILE = re.compile(r"sqlite(?:\+\w+)?:///")
_PLACE = re.compile(r"\?\d+")


class Reader(Protocol):
    """One connection that only reads."""

    name: str
    """The source for messages: never with a password."""

    def ask(self, name: str, *given: Any) -> list[tuple[Any, ...]]:
        """All rows of a named statement."""
        ...

    def close(self) -> None: ...


def statements(file: str) -> dict[str, str]:
    """The texts of a file beside this one, by name."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    return {one.name: one.text for one in parse(text)}


def is_server(source: str | Path) -> bool:
    """Whether a source is a database server."""
    return isinstance(source, str) and _SERVER.match(source) is not None


def check_columns(reader: Reader, table: str, needed: Iterable[str], of: str) -> set[str]:
    """The columns of a table; NotADatabase when it is not there, NotSupported when they differ."""
    found = {str(name) for (name,) in reader.ask("columns", table)}
    if not found:
        raise NotADatabase(f"{reader.name} has no table {table}: nothing of {of}")
    if missing := sorted(set(needed) - found):
        raise NotSupported(
            f"{reader.name}: table {table} without {', '.join(missing)}",
            hint=f"it may be of another version of {of}",
        )
    return found


class File:
    """A SQLite file; nothing is written to it. SQLite may leave an empty log beside it."""

    def __init__(self, source: str | Path, texts: dict[str, str]) -> None:
        self._path = Path(_FILE.sub("", source)) if isinstance(source, str) else source
        self._texts = texts
        self.name = str(self._path)
        if not self._path.is_file():
            raise NotADatabase(f"{self._path} is no file")
        try:
            self._connection = self._open()
        except apsw.Error as error:
            raise self._refusal(error) from error

    def ask(self, name: str, *given: Any) -> list[tuple[Any, ...]]:
        try:
            return list(self._connection.execute(self._texts[name], given))
        except apsw.Error as error:
            raise self._refusal(error) from error

    def close(self) -> None:
        self._connection.close()

    def _open(self) -> apsw.Connection:
        where = f"file:{quote(str(self._path.resolve()))}?mode=ro"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(where, flags=flags)
        connection.set_busy_timeout(BUSY_MS)
        try:
            # Something has to be read before SQLite looks at the file.
            connection.pragma("schema_version")
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # In a folder that can not be written to, SQLite does not open a file that has a log,
            # unless it is told that nobody writes.
            connection.close()
            log = self._path.with_name(self._path.name + "-wal")
            if log.exists() and log.stat().st_size:
                raise
            connection = apsw.Connection(f"{where}&immutable=1", flags=flags)
        return connection

    def _refusal(self, error: apsw.Error) -> LedgerstoneError:
        if isinstance(error, apsw.NotADBError):
            return NotADatabase(f"{self._path} is not a database: {error}")
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return Busy(f"another process holds {self._path}; try again")
        if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError):
            return ReadOnly(f"{self._path} has a log; copy both to where you may write")
        return Corrupt("file", str(self._path), "pages", str(error))


class Server:
    """A PostgreSQL database, in transactions that can only read."""

    def __init__(self, url: str, texts: dict[str, str]) -> None:
        try:
            import psycopg
        except ImportError:
            raise NotSupported(
                "reading PostgreSQL", hint='pip install "ledgerstone[postgres]"'
            ) from None
        self.name = re.sub(r"//[^/]*@", "//", url.split("?", maxsplit=1)[0])
        self._texts: dict[str, Any] = {
            name: _PLACE.sub("%s", text.replace("%", "%%")) for name, text in texts.items()
        }
        self._error = psycopg.Error
        try:
            self._connection = psycopg.connect(_SERVER.sub("postgresql://", url), autocommit=True)
        except psycopg.Error as error:
            raise Unavailable(f"{self.name} does not answer: {type(error).__name__}") from None
        self._connection.read_only = True

    def ask(self, name: str, *given: Any) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(self._texts[name], given).fetchall()
        except self._error as error:
            raise Unavailable(f"{self.name}: {type(error).__name__}") from error

    def close(self) -> None:
        self._connection.close()


def open_source(source: str | Path, file_texts: str, server_texts: str) -> Reader:
    """The connection that a path or a postgresql:// url leads to, with the statements for it."""
    if isinstance(source, str) and is_server(source):
        return Server(source, statements(server_texts))
    return File(source, statements(file_texts))
