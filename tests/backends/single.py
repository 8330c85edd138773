"""For tests of turns that are sent alone."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
import pytest

from ledgerstone.commands import Command
from ledgerstone.engines.postgres.backend import PostgresBackend
from ledgerstone.engines.postgres.planned.queue import CommandQueue
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.runs import Run
from ledgerstone.records.usage import Usage, UsageEntry

R = TypeVar("R")

USED = (UsageEntry("m", Usage(60, 2)),)


class Ways:
    """How commands were sent: alone (and whether that was all), or as a group."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        alone, call = CommandQueue._call_single, CommandQueue._call

        async def noted_alone(line: CommandQueue, group: Any, shape: Any) -> Any:
            self.seen.append("alone")
            return await alone(line, group, shape)

        async def noted(line: CommandQueue, group: Any, mode: int) -> Any:
            self.seen.append("group")
            return await call(line, group, mode)

        monkeypatch.setattr(CommandQueue, "_call_single", noted_alone)
        monkeypatch.setattr(CommandQueue, "_call", noted)

    def take(self) -> list[str]:
        seen, self.seen = self.seen, []
        return seen


def run(status: Any, id: str = "r", session: str = "s") -> Run:
    return Run(id=id, session=session, status=status)


def outcome(backend: PostgresBackend, command: Command[Any]) -> Any:
    try:
        return backend.write(command)
    except LedgerstoneError as error:
        return type(error), str(error)


def rows_in(backend: PostgresBackend, text: str, session: str) -> list[Any]:
    with psycopg.connect(backend._target.dsn) as connection:
        connection.execute("set search_path = ledgerstone")
        found = connection.execute("select number from sessions where id = %s", [session])
        number = found.fetchall()[0][0]
        return connection.execute(text, [number]).fetchall()


def is_waiting(connection: psycopg.Connection[Any]) -> bool:
    found = connection.execute(
        "select count(*) from pg_locks where not granted and pid <> pg_backend_pid()"
    ).fetchone()
    return found is not None and found[0] > 0


def begun(
    pool: ThreadPoolExecutor,
    backend: PostgresBackend,
    command: Command[R],
    other: psycopg.Connection[Any],
) -> Future[R]:
    """What the command answers from a thread of its own, once it waits."""
    future = pool.submit(backend.write, command)
    for _ in range(400):
        if is_waiting(other) or future.done():
            return future
        time.sleep(0.005)
    raise AssertionError("nobody waits")
