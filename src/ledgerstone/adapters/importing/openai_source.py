"""A file of openai-agents' SQLiteSession, opened to be read only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ledgerstone.adapters.importing.openai_usage import TABLE as USAGE
from ledgerstone.adapters.importing.openai_usage import Turn
from ledgerstone.adapters.importing.sources import (
    File,
    Tables,
    check_columns,
    columns,
    is_server,
    statements,
)
from ledgerstone.errors import NotSupported

CHUNK = 500
OF = "the SDK's SQLite sessions"
US_PER_S = 1_000_000
SESSIONS, MESSAGES, STRUCTURE = "agent_sessions", "agent_messages", "message_structure"
_NEEDED = {
    SESSIONS: {"session_id", "created_at"},
    MESSAGES: {"id", "session_id", "message_data", "created_at"},
    STRUCTURE: {"id", "session_id", "message_id", "branch_id", "sequence_number"},
    USAGE: {
        *("id", "session_id", "branch_id", "user_turn_number", "input_tokens", "output_tokens"),
        *("total_tokens", "input_tokens_details", "output_tokens_details"),
    },
}
_TEXTS = statements("openai_sessions.sql")


class Row(NamedTuple):
    """One stored item."""

    number: int
    data: str
    created_us: int


class Source(Tables):
    """The sessions of a file; the names of its tables may have been chosen."""

    def __init__(
        self,
        source: str | Path,
        sessions_table: str = SESSIONS,
        messages_table: str = MESSAGES,
    ) -> None:
        if is_server(source):
            raise NotSupported("sessions of openai-agents from a server", hint="give a SQLite file")
        self.table = messages_table
        self._names = {SESSIONS: sessions_table, MESSAGES: messages_table}
        texts = {name: _put_in(one, self._names) for name, one in _TEXTS.items()}
        super().__init__(File(source, texts))

    def _check(self) -> None:
        self._more = {one for one in (STRUCTURE, USAGE) if self._is_about(one)}
        for table, needed in _NEEDED.items():
            if table in self._names or table in self._more:
                check_columns(self._reader, self._names.get(table, table), needed, OF)

    def _is_about(self, table: str) -> bool:
        """Whether the file has this table of an AdvancedSQLiteSession, and for these two tables.

        A file has it once, but may have sessions under other names of tables.
        """
        owners = {str(name).lower() for (name,) in self._reader.ask("owners", table)}
        known = {name.lower() for name in self._names.values()}
        return bool(columns(self._reader, table)) and owners <= known

    def sessions(self) -> list[tuple[str, int]]:
        """Ids, and when each began in microseconds."""
        return [(str(id), _micros(at)) for id, at in self._reader.ask("sessions")]

    def branches(self, session: str) -> list[str]:
        """Names of branches; empty when the session has none."""
        if STRUCTURE not in self._more:
            return []
        return [str(name) for (name,) in self._reader.ask("branches", session)]

    def rows(self, session: str) -> Iterator[list[Row]]:
        """The items of a session in pieces."""
        after = -1
        while found := self._reader.ask("plain_rows", session, after, CHUNK):
            yield [_row(*one) for one in found]
            after = found[-1][0]

    def branch_rows(self, session: str, branch: str) -> list[Row]:
        """The items of a branch."""
        return [_row(*one) for one in self._reader.ask("branch_rows", session, branch)]

    def usage(self, session: str) -> list[Turn]:
        """What its turns used, as far as that was stored."""
        if USAGE not in self._more:
            return []
        return [Turn(*one) for one in self._reader.ask("usage", session)]


def _put_in(text: str, tables: dict[str, str]) -> str:
    """A statement with the chosen names in it."""
    quoted = {known: '"' + chosen.replace('"', '""') + '"' for known, chosen in tables.items()}
    return re.sub("|".join(tables), lambda match: quoted[match[0]], text)


def _row(number: int, data: str, created: Any) -> Row:
    return Row(number, data, _micros(created))


def _micros(text: Any) -> int:
    """SQLite's time of day in UTC, as microseconds; 0 when it is none that a store takes."""
    try:
        at = datetime.fromisoformat(str(text)).replace(tzinfo=UTC)
    except ValueError:
        return 0
    return max(int(at.timestamp() * US_PER_S), 0)
