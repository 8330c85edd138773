"""Google ADK: the events of a turn, a session with all its events, and lists of sessions."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from bench.adapters.users import user_of
from bench.contender import History, fill_by_commits, fill_side_by_side, settle
from bench.peers.adk_sqlite import NAMES, AdkSessions
from bench.postgres.place import sqlalchemy_url, url
from bench.work import Turn
from ledgerstone import AsyncStore
from ledgerstone.adapters.adk import LedgerSessionService

AT_ONCE: Final = 64


class Services(AdkSessions):
    """A service of either make, with the lists that a user and an operator see."""

    def __init__(self, service: Any, close: Callable[[], Any], *, together: bool) -> None:
        super().__init__(service)
        self.on_close = close
        self.together = together

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        fill = fill_side_by_side if self.together else fill_by_commits
        return await fill(self, histories, turns)

    async def many(self, count: int) -> list[int]:
        """So many sessions, made as the framework makes them."""
        for start in range(0, count, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, count))
            await asyncio.gather(*(self._made(number) for number in numbers))
        return list(range(count))

    async def _made(self, number: int) -> None:
        await self.service.create_session(
            app_name=NAMES["app_name"],
            user_id=user_of(number),
            session_id=f"many-{number:08d}",
            state={"step": number},
        )

    async def of_user(self) -> Any:
        return (await self.service.list_sessions(**NAMES)).sessions

    async def of_app(self) -> Any:
        return (await self.service.list_sessions(app_name=NAMES["app_name"])).sessions

    async def close(self) -> None:
        await settle(self.on_close())


class StockFile(Services):
    """Ten thousand sessions one by one would take minutes: rows like its own, at once."""

    def __init__(self, path: Path) -> None:
        from google.adk.sessions.sqlite_session_service import SqliteSessionService

        service = SqliteSessionService(str(path))
        super().__init__(service, service.close, together=False)
        self.path = path

    async def many(self, count: int) -> list[int]:
        await self._made(0)
        now = time.time()
        rows = [
            (NAMES["app_name"], user_of(number), f"many-{number:08d}", '{"step": 1}', now, now)
            for number in range(1, count)
        ]
        connection = sqlite3.connect(self.path)
        with connection:
            connection.executemany("insert into sessions values (?, ?, ?, ?, ?, ?)", rows)
        connection.close()
        return list(range(count))


class StockDatabase(Services):
    """The same on PostgreSQL: copies of a row that it made."""

    def __init__(self, path: Path) -> None:
        from google.adk.sessions.database_session_service import DatabaseSessionService

        service = DatabaseSessionService(sqlalchemy_url(path, "asyncpg"))
        super().__init__(service, service.close, together=True)
        self.path = path

    async def many(self, count: int) -> list[int]:
        import asyncpg

        await self._made(0)
        connection = await asyncpg.connect(url(self.path))
        users = [user_of(number) for number in range(1, count)]
        names = [f"many-{number:08d}" for number in range(1, count)]
        await connection.execute(
            "insert into sessions (app_name, user_id, id, state, create_time, update_time) "
            "select app_name, made.user_id, made.id, state, create_time, update_time "
            "from sessions, unnest($1::text[], $2::text[]) as made(user_id, id)",
            users,
            names,
        )
        await connection.close()
        return list(range(count))


def open_stock(path: Path) -> Services:
    return StockFile(path)


def open_pg_stock(path: Path) -> Services:
    return StockDatabase(path)


async def _ours(place: str) -> Services:
    store = await AsyncStore.open(place)
    return Services(LedgerSessionService(store), store.close, together=True)


async def open_ours(path: Path) -> Services:
    return await _ours(str(path))


async def open_pg_ours(path: Path) -> Services:
    return await _ours(url(path))
