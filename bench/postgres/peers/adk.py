"""ADK on PostgreSQL: its database service with the engine and pool it makes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from google.adk.sessions.database_session_service import DatabaseSessionService

from bench.contender import History, fill_side_by_side
from bench.peers.adk_sqlite import AdkSessions
from bench.postgres.place import sqlalchemy_url
from bench.work import Turn


class AdkServiceSessions(AdkSessions):
    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        return await fill_side_by_side(self, histories, turns)


def open_adk(path: Path) -> AdkServiceSessions:
    return AdkServiceSessions(DatabaseSessionService(sqlalchemy_url(path, "asyncpg")))
