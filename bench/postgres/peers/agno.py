"""agno on PostgreSQL: its asynchronous database, called as its agent calls it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agno.db.base import SessionType
from agno.db.postgres import AsyncPostgresDb

from bench.contender import History, fill_side_by_side
from bench.peers import agno_sqlite
from bench.peers.agno_sqlite import MESSAGES_PER_RUN
from bench.postgres.place import sqlalchemy_url
from bench.work import Turn


class AgnoSessions:
    """One database object; the session rows are kept, the runs are not."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.kept = agno_sqlite.AgnoSessions(None)

    async def create(self, numbers: Sequence[int]) -> None:
        self.attach(numbers)
        for number in numbers:
            await self.db.upsert_session(self.kept.sessions[number])

    def attach(self, numbers: Sequence[int]) -> None:
        self.kept.attach(numbers)

    async def commit(self, number: int, turn: Turn) -> None:
        session = self.kept.sessions[number]
        run = agno_sqlite.run(session.session_id, turn)
        await self.db.upsert_run(run, session.session_id, user_id="ada")
        await self.db.upsert_session(session)

    def tidy(self) -> None:
        """The server checkpoints."""

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        return await fill_side_by_side(self, histories, turns)

    async def load(self, number: int) -> Sequence[object]:
        found: list[object] = (await self._get(number, None)).get_messages()
        return found

    async def last(self, number: int, count: int) -> Sequence[object]:
        runs = -(-count // MESSAGES_PER_RUN)
        found: list[object] = (await self._get(number, runs)).get_messages()
        return found[-count:]

    async def close(self) -> None:
        await self.db.close()

    async def _get(self, number: int, runs: int | None) -> Any:
        return await self.db.get_session(
            f"bench-{number:08d}", session_type=SessionType.AGENT, runs_limit=runs
        )


def open_agno(path: Path) -> AgnoSessions:
    return AgnoSessions(AsyncPostgresDb(db_url=sqlalchemy_url(path, "asyncpg")))
