"""The floors on PostgreSQL: seven rows per turn in one statement, one commit per turn.

Two ways to the server: through a pool of asyncpg, as most services do, and over one connection.
`floor_blocking.py` has the one without an event loop.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg

from bench.contender import History, fill_side_by_side
from bench.postgres.place import url
from bench.work import MODEL, Message, Turn, decode

POOL: Final = 10

SCHEMA: Final = """
create table if not exists messages(key bigint primary key, created_us bigint, body bytea);
create table if not exists heads(
  number bigint primary key, revision bigint, last bigint, updated_us bigint
) with (fillfactor = 50);
create table if not exists runs(
  key bigint primary key, status text, started_us bigint, finished_us bigint
);
create table if not exists usage(key bigint primary key, model text, input bigint, output bigint);
create table if not exists jobs(
  id bigint generated always as identity primary key, session bigint, claimed_us bigint, body bytea
);
"""
ADD_HEADS: Final = "insert into heads select number, 0, 0, 0 from unnest($1::bigint[]) as n(number)"
COMMIT: Final = """
with head as (
  update heads set revision = revision + 1, last = last + cardinality($2::bytea[]), updated_us = $3
  where number = $1
  returning revision, last - cardinality($2::bytea[]) as before
), said as (
  insert into messages
  select $1::bigint << 32 | before + place, $3::bigint, body
  from head, unnest($2::bytea[]) with ordinality as b(body, place)
), run as (
  insert into runs select $1::bigint << 32 | revision, 'done', $3::bigint, $3::bigint from head
), used as (
  insert into usage select $1::bigint << 32 | revision, $4::text, $5::bigint, $6::bigint from head
)
select revision from head
"""
READ_ALL: Final = "select body from messages where key > $1 and key < $2 order by key"
READ_LAST: Final = (
    "select body from messages where key > $1 and key < $2 order by key desc limit $3"
)


def values(number: int, turn: Turn) -> tuple[Any, ...]:
    now = time.time_ns() // 1000
    return (number, turn.bodies(), now, MODEL, turn.input_tokens, turn.output_tokens)


def span(number: int) -> tuple[int, int]:
    return number << 32, number + 1 << 32


class PoolFloor:
    """A pool; each call borrows a connection and gives it back, reset and all."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    async def create(self, numbers: Sequence[int]) -> None:
        await self.pool.execute(ADD_HEADS, list(numbers))

    def attach(self, numbers: Sequence[int]) -> None:
        """There is nothing to get hold of."""

    async def commit(self, number: int, turn: Turn) -> None:
        if await self.pool.fetchval(COMMIT, *values(number, turn)) is None:
            raise RuntimeError(f"no session {number}")

    def tidy(self) -> None:
        """The server checkpoints."""

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        return await fill_side_by_side(self, histories, turns)

    async def load(self, number: int) -> list[Message]:
        rows = await self.pool.fetch(READ_ALL, *span(number))
        return [decode(row[0]) for row in rows]

    async def last(self, number: int, count: int) -> list[Message]:
        rows = await self.pool.fetch(READ_LAST, *span(number), count)
        found = [decode(row[0]) for row in rows]
        found.reverse()
        return found

    async def close(self) -> None:
        await self.pool.close()


class BareFloor(PoolFloor):
    """One connection and prepared statements: nothing between the caller and the server."""

    def __init__(self, connection: Any, commit: Any) -> None:
        super().__init__(connection)
        self.prepared = commit

    async def commit(self, number: int, turn: Turn) -> None:
        if await self.prepared.fetchval(*values(number, turn)) is None:
            raise RuntimeError(f"no session {number}")

    def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> Any:
        raise RuntimeError("filled by the floor with a pool, whose database this one copies")


async def open_pool(path: Path) -> PoolFloor:
    pool = await asyncpg.create_pool(url(path), min_size=POOL, max_size=POOL)
    await pool.execute(SCHEMA)
    return PoolFloor(pool)


async def open_bare(path: Path) -> BareFloor:
    connection = await asyncpg.connect(url(path))
    await connection.execute(SCHEMA)
    return BareFloor(connection, await connection.prepare(COMMIT))
