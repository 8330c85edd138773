"""A file of openai-agents' SQLiteSession, opened to be read only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import apsw

from ledgerstone.errors import Busy, Corrupt, LedgerstoneError, NotADatabase, NotSupported
from ledgerstone.sql.catalogue import parse

CHUNK = 500
US_PER_S = 1_000_000
STRUCTURE = "message_structure"
_NEEDED = {
    "agent_sessions": {"session_id", "created_at"},
    "agent_messages": {"id", "session_id", "message_data", "created_at"},
    STRUCTURE: {"id", "session_id", "message_id", "branch_id", "sequence_number"},
}
_TEXTS = {
    one.name: one.text
    for one in parse(Path(__file__).with_name("openai_sessions.sql").read_text("utf-8"))
}


class Row(NamedTuple):
    """One stored item."""

    number: int
    data: str
    created_us: int


class Source:
    """The sessions of a file. Nothing is written to it, not even by opening it."""

    def __init__(self, path: str | Path, sessions_table: str, messages_table: str) -> None:
        self.path = Path(path)
        self._tables = {"agent_sessions": sessions_table, "agent_messages": messages_table}
        if not self.path.is_file():
            raise NotADatabase(f"{self.path} is no file")
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        try:
            self._connection = apsw.Connection(
                f"file:{quote(str(self.path.resolve()))}?mode=ro", flags=flags
            )
            self._connection.set_busy_timeout(5000)
        except apsw.Error as error:
            raise self._refusal(error) from error
        try:
            self.has_branches = self._check_tables()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def sessions(self) -> list[tuple[str, int]]:
        """Ids, and when each began in microseconds."""
        return [(str(id), _micros(at)) for id, at in self._ask("sessions")]

    def branches(self, session: str) -> list[str]:
        """Names of branches; empty when the session has none."""
        if not self.has_branches:
            return []
        return [str(name) for (name,) in self._ask("branches", session)]

    def rows(self, session: str) -> Iterator[list[Row]]:
        """The items of a session in pieces."""
        after = -1
        while found := self._ask("plain_rows", session, after, CHUNK):
            yield [_row(*one) for one in found]
            after = found[-1][0]

    def branch_rows(self, session: str, branch: str) -> list[Row]:
        """The items of a branch."""
        return [_row(*one) for one in self._ask("branch_rows", session, branch)]

    def _check_tables(self) -> bool:
        """Whether there are branches; refuses a file that is none of theirs, or newer."""
        for table, needed in _NEEDED.items():
            name = self._tables.get(table, table)
            found = {column for (column,) in self._ask("columns", name)}
            if not found and table == STRUCTURE:
                return False
            if not found:
                raise NotADatabase(f"{self.path} has no table {name}: no file of a SQLiteSession")
            if missing := sorted(needed - found):
                raise NotSupported(
                    f"{self.path}: table {name} without {', '.join(missing)}",
                    hint="it may be of a newer openai-agents",
                )
        return True

    def _ask(self, name: str, *given: Any) -> list[tuple[Any, ...]]:
        text = _TEXTS[name]
        for table, chosen in self._tables.items():
            text = text.replace(table, '"' + chosen.replace('"', '""') + '"')
        try:
            return list(self._connection.execute(text, given))
        except apsw.Error as error:
            raise self._refusal(error) from error

    def _refusal(self, error: apsw.Error) -> LedgerstoneError:
        if isinstance(error, apsw.NotADBError):
            return NotADatabase(f"{self.path} is not a database: {error}")
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return Busy(f"another process holds {self.path}; try again")
        return Corrupt("file", str(self.path), "pages", str(error))


def item_of(row: Row, table: str) -> dict[str, Any]:
    """The item of a row; Corrupt when it is not a JSON object."""
    try:
        item = json.loads(row.data)
    except (TypeError, ValueError) as error:
        raise Corrupt(table, str(row.number), "message_data", f"not JSON: {error}") from None
    if not isinstance(item, dict):
        reason = f"an object expected, got {type(item).__name__}"
        raise Corrupt(table, str(row.number), "message_data", reason)
    return item


def _row(number: int, data: str, created: Any) -> Row:
    return Row(number, data, _micros(created))


def _micros(text: Any) -> int:
    """SQLite's time of day in UTC, as microseconds; 0 when it is none."""
    try:
        return int(datetime.fromisoformat(str(text)).replace(tzinfo=UTC).timestamp() * US_PER_S)
    except ValueError:
        return 0
