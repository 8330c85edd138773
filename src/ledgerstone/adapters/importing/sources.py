"""Databases of others, opened to be read only: a SQLite file or a PostgreSQL server."""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import apsw

from ledgerstone.engines.postgres.drivers.errors import not_connected
from ledgerstone.engines.postgres.drivers.port import NotConnected
from ledgerstone.engines.postgres.drivers.urls import CODES, take_apart
from ledgerstone.errors import (
    Busy,
    Corrupt,
    InvalidValue,
    LedgerstoneError,
    NotADatabase,
    NotSupported,
    ReadOnly,
    Unavailable,
)
from ledgerstone.sql.catalogue import parse

if TYPE_CHECKING:
    from psycopg import Connection

BUSY_MS = 5000
CONNECT_S = 10
FETCH_ROWS = 200
STEPS_MAX = 1_000_000_000
"""Maximum steps of SQLite's virtual machine for a row of `each` or all rows of `ask`."""
STEPS_COUNTED = 1_000_000
"""Steps from one look at them to the next."""
DAMAGED_FILE = "file"
"""The table that a Corrupt names when SQLite cannot read the file itself."""
_SERVER = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")
_NEARLY = re.compile(r"postgres(?:ql)?(?:\+\w+)?(?::|//)")
"""Begins a url of a server that lacks a character."""
_FILE = re.compile(r"sqlite(?:\+\w+)?:///")
_PLACE = re.compile(r"\?\d+")


class Reader(Protocol):
    """One connection that only reads."""

    name: str
    """The source for messages: never with a password."""
    dialect: str

    def ask(self, name: str, *given: Any) -> list[tuple[Any, ...]]:
        """All rows of a named statement."""
        ...

    def each(self, name: str, *given: Any) -> Iterator[dict[str, Any]]:
        """Its rows by the names of their columns, as they come; one statement at a time."""
        ...

    def close(self) -> None: ...


def statements(file: str) -> dict[str, str]:
    """The texts of a file beside this one, by name."""
    text = Path(__file__).with_name(file).read_text("utf-8")
    return {one.name: one.text for one in parse(text)}


_OWN = statements("sources.sql")


def is_server(source: str | Path) -> bool:
    """Whether a source is a database server."""
    return isinstance(source, str) and _SERVER.match(source) is not None


def file_path(source: str | Path) -> Path:
    """The file that a path or a sqlite:/// url leads to; InvalidValue for any other url."""
    if isinstance(source, Path):
        return source
    path = _FILE.sub("", source)
    if not path or "://" in path or _NEARLY.match(path):  # Not shown: it may hold a password.
        raise InvalidValue("source", "give a SQLite file, or postgresql://host/database")
    return Path(path)


def columns(reader: Reader, table: str) -> set[str]:
    """The columns of a table; none when nothing has that name, NotSupported when it is no table.

    A view runs whatever it was written to run, and a virtual table the code of a library.
    """
    found = reader.ask(f"{reader.dialect}_columns", table)
    if not all(is_table for _, is_table in found):
        raise NotSupported(
            f"{reader.name}: {table} is a view or a virtual table",
            hint="copy its rows into a table of that name",
        )
    return {str(name) for name, _ in found}


def check_columns(reader: Reader, table: str, needed: Iterable[str], of: str) -> set[str]:
    """The columns of a table; NotADatabase when it is not there, NotSupported when they differ."""
    found = columns(reader, table)
    if not found:
        raise NotADatabase(f"{reader.name} has no table {table}: nothing of {of}")
    if missing := sorted(set(needed) - found):
        raise NotSupported(
            f"{reader.name}: table {table} without {', '.join(missing)}",
            hint=f"it may be of another version of {of}",
        )
    return found


def json_object(value: Any, table: str, key: str, field: str) -> dict[str, Any]:
    """A stored object, which a driver may have decoded already; Corrupt when it is none."""
    if isinstance(value, str | bytes):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise Corrupt(table, key, field, f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Corrupt(table, key, field, f"an object expected, got {type(value).__name__}")
    return value


class Tables(ABC):
    """Tables of another library, checked when they are opened."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._reader.close()

    @abstractmethod
    def _check(self) -> None:
        """Refuse tables of something else, or of a newer version."""


class File:
    """A SQLite file; nothing is written to it. SQLite may leave an empty log beside it."""

    dialect = "sqlite"

    def __init__(self, source: str | Path, texts: dict[str, str]) -> None:
        self._path = file_path(source)
        self._texts = {**_OWN, **texts}
        self.name = str(self._path)
        # Not Path.is_file, which raises where a folder may not be entered.
        if not os.path.isfile(self._path):  # noqa: PTH113
            raise NotADatabase(f"{self._path} is no file")
        if not os.access(self._path, os.R_OK):
            raise Unavailable(f"{self._path} may not be read")
        self._steps = 0
        with self._refusing():
            self._connection = self._open()
        self._connection.set_progress_handler(self._is_stuck, STEPS_COUNTED)

    def ask(self, name: str, *given: Any) -> list[tuple[Any, ...]]:
        with self._refusing():
            self._steps = 0
            return list(self._connection.execute(self._texts[name], given))

    def each(self, name: str, *given: Any) -> Iterator[dict[str, Any]]:
        with self._refusing():
            self._steps = 0
            cursor = self._connection.execute(self._texts[name], given)
            for row in cursor:
                self._steps = 0
                yield dict(zip((one[0] for one in cursor.get_description()), row, strict=True))

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
            # In a folder that cannot be written to, SQLite does not open a file that has a log,
            # unless it is told that nobody writes. It then believes the file alone, so there must
            # be nothing beside it that belongs to it.
            connection.close()
            if self._has_more():
                raise
            connection = apsw.Connection(f"{where}&immutable=1", flags=flags)
        return connection

    def _is_stuck(self) -> bool:
        """Whether the statement that runs is to be ended."""
        self._steps += STEPS_COUNTED
        return self._steps > STEPS_MAX

    def _has_more(self) -> bool:
        """Whether there is a log, or the journal of a transaction that was broken off."""
        real = self._path.resolve()
        beside = [real.with_name(real.name + end) for end in ("-wal", "-journal")]
        return any(one.exists() and one.stat().st_size for one in beside)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Errors of SQLite as ours."""
        try:
            yield
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> LedgerstoneError:
        if isinstance(error, apsw.NotADBError):
            return NotADatabase(f"{self._path} is not a database: {error}")
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return Busy(f"another process holds {self._path}; try again")
        if isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError):
            return ReadOnly(
                f"{self._path} was not closed and has a log or a journal beside it; "
                "let its program open it once, or copy both to where you may write and do it there"
            )
        if isinstance(error, apsw.InterruptError):
            return Unavailable(f"{self._path}: no row came in {STEPS_MAX} steps; it may be damaged")
        if isinstance(error, apsw.IOError):
            return Unavailable(f"{self._path} cannot be read: {error}")
        return Corrupt(DAMAGED_FILE, str(self._path), "pages", str(error))


class Server:
    """A PostgreSQL database, in one transaction that can only read: one moment of it."""

    dialect = "postgres"

    def __init__(self, url: str, texts: dict[str, str]) -> None:
        try:
            import psycopg
            from psycopg.rows import dict_row
        except ImportError:
            raise NotSupported(
                "reading PostgreSQL", hint='pip install "ledgerstone[postgres]"'
            ) from None
        url = _SERVER.sub("postgresql://", url)
        self.name = _shown(url)
        self._texts: dict[str, Any] = {
            name: _PLACE.sub("%s", text.replace("%", "%%"))
            for name, text in {**_OWN, **texts}.items()
        }
        self._error = psycopg.Error
        self._named: Any = dict_row
        self._connection = self._connect(url)
        self._connection.read_only = True
        self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with self._refusing():
            self._connection.execute(self._texts["postgres_limit"])

    def ask(self, name: str, *given: Any) -> list[tuple[Any, ...]]:
        with self._refusing():
            return self._connection.execute(self._texts[name], given).fetchall()

    def each(self, name: str, *given: Any) -> Iterator[dict[str, Any]]:
        # With a name, the server hands the rows out piece by piece.
        with (
            self._refusing(),
            self._connection.cursor("ledgerstone", row_factory=self._named) as cursor,
        ):
            cursor.itersize = FETCH_ROWS
            cursor.execute(self._texts[name], given)
            yield from cursor

    def close(self) -> None:
        self._connection.close()

    def _connect(self, url: str) -> Connection[Any]:
        import psycopg

        given: dict[str, Any] = {} if "connect_timeout=" in url else {"connect_timeout": CONNECT_S}
        try:
            return psycopg.connect(url, **given)
        except psycopg.ProgrammingError:
            refusal: LedgerstoneError = InvalidValue(
                "source", f"an unknown option of the url; {CODES}"
            )
        except psycopg.Error as error:
            refusal = not_connected(NotConnected(str(error), error.sqlstate or ""), self.name)
        raise refusal  # Out here: the driver's error, which may quote the url, does not go along.

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            said = error.diag.message_primary or type(error).__name__
            raise Unavailable(f"{self.name}: {said}") from error


def _shown(url: str) -> str:
    """The place that a url leads to; one where a password may not end at its @ is refused."""
    parts = take_apart(url, "source")
    return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"


def open_source(source: str | Path, file_texts: str, server_texts: str) -> Reader:
    """The connection that a path or a postgresql:// url leads to, with the statements for it."""
    if isinstance(source, str) and is_server(source):
        return Server(source, statements(server_texts))
    return File(source, statements(file_texts))
