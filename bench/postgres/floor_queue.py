"""The queue of the floor: a table of jobs, claimed by SKIP LOCKED; a call takes a whole batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import asyncpg

from bench.floor_queue import payload
from bench.postgres.floor import COMMIT as COMMIT_TURN
from bench.postgres.floor import SCHEMA, BareFloor
from bench.postgres.place import url
from bench.work import encode

READY: Final = "create index if not exists jobs_ready on jobs (id) where claimed_us is null"
PUT: Final = (
    "insert into jobs (session, body) "
    "select session, body from unnest($1::bigint[], $2::bytea[]) as j(session, body)"
)
CLAIM: Final = """
update jobs set claimed_us = $2
where id in (
  select id from jobs where claimed_us is null order by id limit $1 for update skip locked
)
returning id, body
"""
DONE: Final = "delete from jobs where id = any($1::bigint[])"


class QueueFloor(BareFloor):
    """One connection; each of the three steps is one statement and one commit."""

    def __init__(self, connection: Any, commit: Any, put: Any, claim: Any, done: Any) -> None:
        super().__init__(connection, commit)
        self.put, self.claim, self.done = put, claim, done

    async def jobs(self, numbers: Sequence[int], batches: int, size: int) -> int:
        """As many items per call as all the sessions have together."""
        sessions = [number for number in numbers for _ in range(size)]
        for _ in range(batches):
            bodies = [encode(payload(place)) for _ in numbers for place in range(size)]
            await self.put.fetch(sessions, bodies)
            rows = await self.claim.fetch(len(sessions), time.time_ns() // 1000)
            if len(rows) != len(sessions):
                raise RuntimeError(f"{len(rows)} claimed, not {len(sessions)}")
            await self.done.fetch([row[0] for row in rows])
        return batches * len(sessions)

    async def served(self, numbers: Sequence[int], batches: int, size: int) -> int:
        """The same thing: this floor does not know sessions."""
        return await self.jobs(numbers, batches, size)


async def open_queue(path: Path) -> QueueFloor:
    connection = await asyncpg.connect(url(path))
    await connection.execute(SCHEMA)
    await connection.execute(READY)
    statements = [await connection.prepare(one) for one in (COMMIT_TURN, PUT, CLAIM, DONE)]
    return QueueFloor(connection, *statements)
