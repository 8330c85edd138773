"""openai-agents on PostgreSQL: a session object per conversation, all on one engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.extensions.memory import SQLAlchemySession
from sqlalchemy.ext.asyncio import create_async_engine

from bench.contender import History, fill_side_by_side
from bench.peers.openai_sqlite import OpenAISessions
from bench.postgres.place import sqlalchemy_url
from bench.work import Turn


class EngineSessions(OpenAISessions):
    """The tables are made by the first call; after that no session looks for them."""

    def __init__(self, engine: Any) -> None:
        super().__init__(lambda name: SQLAlchemySession(name, engine=engine, create_tables=True))
        self.engine = engine

    async def prepare(self) -> None:
        await self.make("nobody").get_items(limit=1)
        self.make = lambda name: SQLAlchemySession(name, engine=self.engine)

    def close(self) -> Any:
        return self.engine.dispose()

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        return await fill_side_by_side(self, histories, turns)


async def open_sqlalchemy(path: Path) -> EngineSessions:
    sessions = EngineSessions(create_async_engine(sqlalchemy_url(path, "asyncpg")))
    await sessions.prepare()
    return sessions
