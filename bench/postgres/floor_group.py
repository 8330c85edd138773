"""The floor of many sessions: the turns that wait travel together, in one statement on one wire.

While one call is under way the next group gathers; nobody waits for a group to fill.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg

from bench.contender import History
from bench.postgres.floor import ADD_HEADS, SCHEMA
from bench.postgres.place import url
from bench.work import MODEL, Message, Turn

# A session is at most once in a group: whoever commits twice waits for the first answer.
COMMIT: Final = """
with head as (
  update heads h
  set revision = h.revision + 1, last = h.last + c.messages, updated_us = $3
  from unnest($1::bigint[], $2::bigint[]) as c(number, messages)
  where h.number = c.number
  returning h.number, h.revision, h.last - c.messages as before
), said as (
  insert into messages
  select h.number << 32 | h.before + b.place, $3::bigint, b.body
  from unnest($4::bigint[], $5::bigint[], $6::bytea[]) as b(number, place, body)
  join head h using (number)
), run as (
  insert into runs select number << 32 | revision, 'done', $3::bigint, $3::bigint from head
), used as (
  insert into usage
  select h.number << 32 | h.revision, $7::text, u.input, u.output
  from unnest($1::bigint[], $8::bigint[], $9::bigint[]) as u(number, input, output)
  join head h using (number)
)
select count(*) from head
"""

Waiting = tuple[int, Turn, list[bytes], "asyncio.Future[None]"]


class GroupFloor:
    def __init__(self, connection: Any, commit: Any) -> None:
        self.connection = connection
        self.statement = commit
        self.waiting: list[Waiting] = []
        self.flusher: asyncio.Task[None] | None = None

    async def create(self, numbers: Sequence[int]) -> None:
        await self.connection.execute(ADD_HEADS, list(numbers))

    def attach(self, numbers: Sequence[int]) -> None:
        """There is nothing to get hold of."""

    def tidy(self) -> None:
        """The server checkpoints."""

    def commit(self, number: int, turn: Turn) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((number, turn, turn.bodies(), future))
        if self.flusher is None:
            self.flusher = asyncio.create_task(self._flush())
        return future

    def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        raise RuntimeError("filled by the floor with a pool, whose database this one copies")

    def load(self, number: int) -> list[Message]:
        raise RuntimeError("this floor writes only")

    def last(self, number: int, count: int) -> list[Message]:
        raise RuntimeError("this floor writes only")

    async def close(self) -> None:
        await self.connection.close()

    async def _flush(self) -> None:
        try:
            while self.waiting:
                group, self.waiting = self.waiting, []
                try:
                    done = await self.statement.fetchval(*arrays(group))
                    if done != len(group):
                        raise RuntimeError(f"{len(group) - done} sessions are not there")
                except Exception as error:
                    fail(group, error)
                    continue
                for *_, future in group:
                    future.set_result(None)
        finally:
            self.flusher = None


def arrays(group: Sequence[Waiting]) -> tuple[Any, ...]:
    said = [
        (number, place, body)
        for number, _, bodies, _ in group
        for place, body in enumerate(bodies, 1)
    ]
    owners, places, bodies = (list(column) for column in zip(*said, strict=True))
    return (
        [number for number, *_ in group],
        [len(bodies) for _, _, bodies, _ in group],
        time.time_ns() // 1000,
        owners,
        places,
        bodies,
        MODEL,
        [turn.input_tokens for _, turn, *_ in group],
        [turn.output_tokens for _, turn, *_ in group],
    )


def fail(group: Sequence[Waiting], error: Exception) -> None:
    for *_, future in group:
        if not future.done():
            future.set_exception(error)


async def open_group(path: Path) -> GroupFloor:
    connection = await asyncpg.connect(url(path))
    await connection.execute(SCHEMA)
    return GroupFloor(connection, await connection.prepare(COMMIT))
