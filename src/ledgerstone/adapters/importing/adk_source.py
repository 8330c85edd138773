"""Tables of ADK's session services, opened to be read only: a SQLite file or PostgreSQL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
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
    SchemaTooNew,
    Unavailable,
)
from ledgerstone.sql.catalogue import parse

NEWEST = 1
CHUNK = 200
BUSY_MS = 5000
_NEEDED = {
    "sessions": {"app_name", "user_id", "id", "state", "create_time", "update_time"},
    "events": {"app_name", "user_id", "session_id", "id", "invocation_id", "timestamp"},
    "app_states": {"app_name", "state"},
    "user_states": {"app_name", "user_id", "state"},
}
_TEXTS = {
    one.name: one.text
    for one in parse(Path(__file__).with_name("adk_sessions.sql").read_text("utf-8"))
}
_SERVER = re.compile(r"postgres(?:ql)?(?:\+\w+)?://")
_FILE = re.compile(r"sqlite(?:\+\w+)?:///")


class Reader(Protocol):
    """One connection that only reads."""

    dialect: str

    def ask(self, name: str, *given: Any) -> Iterator[dict[str, Any]]:
        """Rows by the names of their columns, as they come."""
        ...

    def close(self) -> None: ...


class Source:
    """The sessions of a database. `version` 0 has its actions pickled: nobody looks at those."""

    def __init__(self, source: str | Path) -> None:
        self.name = _shown(source)
        self._reader = _open(source)
        try:
            self.version = self._check()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._reader.close()

    def sessions(self) -> list[tuple[str, str, str]]:
        """The keys of all of them."""
        rows = self._reader.ask("sessions")
        return [(row["app_name"], row["user_id"], row["id"]) for row in rows]

    def session(self, key: tuple[str, str, str]) -> tuple[dict[str, Any], int] | None:
        """State and beginning of one; None when it was deleted meanwhile."""
        for row in list(self._reader.ask("session", *key)):
            return json_of(row["state"], "sessions", key[2], "state"), micros(row["create_time"])
        return None

    def events(self, key: tuple[str, str, str]) -> Iterator[dict[str, Any]]:
        """The rows of its events in order."""
        return self._reader.ask(f"{self._reader.dialect}_events", *key)

    def app_states(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for row in list(self._reader.ask("app_states")):
            app = row["app_name"]
            yield app, json_of(row["state"], "app_states", app, "state")

    def user_states(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for row in list(self._reader.ask("user_states")):
            app, user = row["app_name"], row["user_id"]
            yield app, user, json_of(row["state"], "user_states", user, "state")

    def _check(self) -> int:
        """Which version it is; refuses what is not ADK's, or newer."""
        columns: set[str] = set()
        for table, needed in _NEEDED.items():
            columns = self._columns(table)
            if not columns:
                raise NotADatabase(f"{self.name} has no table {table}: no sessions of ADK")
            if missing := sorted(needed - columns):
                raise NotSupported(
                    f"{self.name}: table {table} without {', '.join(missing)}",
                    hint="it may be of another version of ADK",
                )
        if self._columns("adk_internal_metadata"):
            for row in list(self._reader.ask("schema_version", "schema_version")):
                if row["value"] not in ("0", "1"):
                    number = int(row["value"]) if str(row["value"]).isdigit() else NEWEST + 1
                    raise SchemaTooNew(f"{self.name} (sessions of ADK)", number, NEWEST)
        return 1 if "event_data" in self._columns("events") else 0

    def _columns(self, table: str) -> set[str]:
        rows = self._reader.ask(f"{self._reader.dialect}_columns", table)
        return {str(value) for row in rows for value in row.values()}


class _File:
    """A SQLite file; nothing is written to it, not even by opening it."""

    dialect = "sqlite"

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.is_file():
            raise NotADatabase(f"{path} is no file")
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        try:
            where = f"file:{quote(str(path.resolve()))}?mode=ro"
            self._connection = apsw.Connection(where, flags=flags)
            self._connection.set_busy_timeout(BUSY_MS)
        except apsw.Error as error:
            raise self._refusal(error) from error

    def ask(self, name: str, *given: Any) -> Iterator[dict[str, Any]]:
        try:
            cursor = self._connection.execute(_TEXTS[name], given)
            for row in cursor:
                yield dict(zip((one[0] for one in cursor.get_description()), row, strict=True))
        except apsw.Error as error:
            raise self._refusal(error) from error

    def close(self) -> None:
        self._connection.close()

    def _refusal(self, error: apsw.Error) -> LedgerstoneError:
        if isinstance(error, apsw.NotADBError):
            return NotADatabase(f"{self._path} is not a database: {error}")
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return Busy(f"another process holds {self._path}; try again")
        return Corrupt("file", str(self._path), "pages", str(error))


class _Server:
    """A PostgreSQL database, in one transaction that can only read: one moment of it."""

    dialect = "postgres"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            from psycopg.rows import dict_row
        except ImportError:
            raise NotSupported(
                "reading PostgreSQL", hint='pip install "ledgerstone[postgres]"'
            ) from None
        self._error = psycopg.Error
        try:
            self._connection = psycopg.connect(_SERVER.sub("postgresql://", url), autocommit=False)
        except psycopg.Error as error:
            raise Unavailable(f"{_shown(url)} does not answer: {type(error).__name__}") from None
        self._connection.read_only = True
        self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        self._rows: Any = dict_row

    def ask(self, name: str, *given: Any) -> Iterator[dict[str, Any]]:
        text: Any = re.sub(r"\?\d+", "%s", _TEXTS[name])
        try:
            # Named: the server hands the rows out piece by piece.
            with self._connection.cursor("ledgerstone", row_factory=self._rows) as cursor:
                cursor.itersize = CHUNK
                cursor.execute(text, given)
                yield from cursor
        except self._error as error:
            raise Unavailable(f"the source: {type(error).__name__}") from error

    def close(self) -> None:
        self._connection.close()


def json_of(value: Any, table: str, key: str, field: str) -> dict[str, Any]:
    """A stored object, which one driver has decoded already; Corrupt when it is none."""
    if isinstance(value, str | bytes):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise Corrupt(table, key, field, f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Corrupt(table, key, field, f"an object expected, got {type(value).__name__}")
    return value


def seconds(value: Any) -> float:
    """A stored time: seconds, or a time of day in UTC; 0 when it is none."""
    if isinstance(value, int | float):
        return float(value)
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return 0.0
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def micros(value: Any) -> int:
    """The same in whole microseconds."""
    return max(0, round(seconds(value) * 1_000_000))


def _open(source: str | Path) -> Reader:
    if isinstance(source, str) and _SERVER.match(source):
        return _Server(source)
    if isinstance(source, str):
        source = Path(_FILE.sub("", source))
    return _File(source)


def _shown(source: str | Path) -> str:
    """What may be said of a source: never its password."""
    return re.sub(r"//[^@/]*@", "//", str(source).split("?")[0])
