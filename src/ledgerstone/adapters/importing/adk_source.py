"""Tables of ADK's session services, opened to be read only: a SQLite file or PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ledgerstone.adapters.importing.sources import Tables, check_columns, columns, open_source
from ledgerstone.errors import SchemaTooNew

NEWEST = 1
OF = "ADK's session services"
TEXTS = "adk_sessions.sql"
_NEEDED = {
    "sessions": {"app_name", "user_id", "id", "state", "create_time", "update_time"},
    "events": {"app_name", "user_id", "session_id", "id", "invocation_id", "timestamp"},
    "app_states": {"app_name", "state"},
    "user_states": {"app_name", "user_id", "state"},
}


class Source(Tables):
    """The sessions of a database. `version` 0 has its actions pickled: nobody looks at those."""

    def __init__(self, source: str | Path) -> None:
        super().__init__(open_source(source, TEXTS, TEXTS))

    def sessions(self) -> list[tuple[str, str, str]]:
        """The keys of all of them."""
        return [(app, user, name) for app, user, name in self._reader.ask("sessions")]

    def session(self, key: tuple[str, str, str]) -> tuple[Any, int] | None:
        """State as it is stored and beginning of one; None when it was deleted meanwhile."""
        for state, created in self._reader.ask("session", *key):
            return state, micros(created)
        return None

    def has(self, key: tuple[str, str, str], event: str) -> bool:
        """Whether an event of this id is in it."""
        return bool(self._reader.ask("event", *key, event))

    def events(self, key: tuple[str, str, str]) -> Iterator[dict[str, Any]]:
        """The rows of its events in order."""
        return self._reader.each(f"{self._reader.dialect}_events", *key)

    def app_states(self) -> list[tuple[Any, ...]]:
        """Names of apps, and what their sessions share, as it is stored."""
        return self._reader.ask("app_states")

    def user_states(self) -> list[tuple[Any, ...]]:
        """Names of apps and users, and what their sessions share, as it is stored."""
        return self._reader.ask("user_states")

    def _check(self) -> None:
        for table, needed in _NEEDED.items():
            check_columns(self._reader, table, needed, OF)
        if columns(self._reader, "adk_internal_metadata"):
            for (value,) in self._reader.ask("schema_version", "schema_version"):
                if value not in ("0", "1"):
                    number = int(value) if str(value).isdigit() else NEWEST + 1
                    raise SchemaTooNew(f"{self._reader.name} (sessions of ADK)", number, NEWEST)
        self.version = 1 if "event_data" in columns(self._reader, "events") else 0


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
