"""The floors: the least code that does the same durable work on SQLite.

Both write seven rows per turn (four messages, head, run, usage) in WAL mode with
`synchronous=FULL`. One does it in the caller's thread, one COMMIT per turn. The other has one
writer thread that commits everything that waits together and wakes all waiters in one call.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import apsw

from bench.work import MODEL, Message, Turn, decode

CHECKPOINT_PAGES: Final = 4000
GROUP_MAX: Final = 256

SCHEMA: Final = """
create table messages(key integer primary key, created_us integer, body blob);
create table heads(number integer primary key, revision integer, last integer, updated_us integer);
create table runs(key integer primary key, status text, started_us integer, finished_us integer);
create table usage(key integer primary key, model text, input integer, output integer);
"""
READ_HEAD: Final = "select revision, last from heads where number = ?"
ADD_HEAD: Final = "insert into heads values (?, 0, 0, 0)"
ADD_MESSAGE: Final = "insert into messages values (?, ?, ?)"
ADD_RUN: Final = "insert into runs values (?, 'done', ?, ?)"
ADD_USAGE: Final = "insert into usage values (?, ?, ?, ?)"
MOVE_HEAD: Final = "update heads set revision = ?, last = ?, updated_us = ? where number = ?"
READ_ALL: Final = "select body from messages where key > ? and key < ? order by key"
READ_LAST: Final = "select body from messages where key > ? and key < ? order by key desc limit ?"


def connect(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    # The same rule as Ledgerstone's writer: rarely, and never inside somebody's COMMIT.
    connection.execute("pragma wal_autocheckpoint = 0")
    # Otherwise SQLite 3.54 prepares statements anew on each use to look at their bound values.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_timeout(30_000)
    return connection


def write_turn(
    cursor: apsw.Cursor, number: int, turn: Turn, bodies: Sequence[bytes], now: int
) -> None:
    revision, last = next(cursor.execute(READ_HEAD, (number,)))
    key = number << 32
    cursor.executemany(
        ADD_MESSAGE, [(key | last + place, now, body) for place, body in enumerate(bodies, 1)]
    )
    turn_key = key | revision + 1
    cursor.execute(ADD_RUN, (turn_key, now, now))
    cursor.execute(ADD_USAGE, (turn_key, MODEL, turn.input_tokens, turn.output_tokens))
    cursor.execute(MOVE_HEAD, (revision + 1, last + len(bodies), now, number))


class Floor:
    """One connection, used in the caller's thread, one COMMIT per turn."""

    name: Final = "floor, caller's thread"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.connection = connect(path)
        self.cursor = self.connection.cursor()
        self.pages = 0
        self.connection.set_wal_hook(self._count)

    @staticmethod
    def make(path: Path) -> None:
        connection = connect(path)
        connection.execute(SCHEMA)
        connection.close()

    def create(self, numbers: Iterable[int]) -> None:
        with self.connection:
            self.cursor.executemany(ADD_HEAD, [(number,) for number in numbers])

    def commit(self, number: int, turn: Turn) -> None:
        now = time.time_ns() // 1000
        self.cursor.execute("begin immediate")
        write_turn(self.cursor, number, turn, turn.bodies(), now)
        self.cursor.execute("commit")

    def tidy(self) -> None:
        """Checkpoint outside the timed part, as a writer does after it has answered."""
        if self.pages >= CHECKPOINT_PAGES:
            self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def load(self, number: int) -> list[Message]:
        key = number << 32
        rows = self.cursor.execute(READ_ALL, (key, key + (1 << 32)))
        return [decode(body) for (body,) in rows]

    def last(self, number: int, count: int) -> list[Message]:
        key = number << 32
        rows = self.cursor.execute(READ_LAST, (key, key + (1 << 32), count))
        found = [decode(body) for (body,) in rows]
        found.reverse()
        return found

    def close(self) -> None:
        self.connection.close()

    def _count(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self.pages = pages
        return apsw.SQLITE_OK


# Without a turn the session is to be created: a connection may only be used by its own thread.
Waiting = tuple[int, Turn | None, list[bytes], "asyncio.Future[None]"]


class GroupFloor:
    """One writer thread; what waits is committed together and woken together."""

    name: Final = "floor, writer thread"

    def __init__(self, path: Path) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self.floor = Floor(path)
        self.thread = threading.Thread(target=self._write, name="floor-writer", daemon=True)
        self.thread.start()

    async def create(self, numbers: Iterable[int]) -> None:
        await asyncio.gather(*(self._put(number, None, []) for number in numbers))

    def tidy(self) -> None:
        """The writer thread does this itself."""

    async def commit(self, number: int, turn: Turn) -> None:
        await self._put(number, turn, turn.bodies())

    def _put(self, number: int, turn: Turn | None, bodies: list[bytes]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self.loop.create_future()
        self.waiting.put((number, turn, bodies, future))
        return future

    async def close(self) -> None:
        self.waiting.put(None)
        await asyncio.to_thread(self.thread.join)
        self.floor.close()

    def _write(self) -> None:
        cursor = self.floor.connection.cursor()
        while True:
            group = self._take()
            if group is None:
                return
            error: BaseException | None = None
            try:
                self._commit(cursor, group)
            except BaseException as problem:
                error = problem
            self.loop.call_soon_threadsafe(_wake, group, error)
            self.floor.tidy()

    def _take(self) -> list[Waiting] | None:
        first = self.waiting.get()
        if first is None:
            return None
        group = [first]
        for _ in range(min(self.waiting.qsize(), GROUP_MAX)):
            item = self.waiting.get()
            if item is None:
                self.waiting.put(None)
                break
            group.append(item)
        return group

    @staticmethod
    def _commit(cursor: apsw.Cursor, group: list[Waiting]) -> None:
        now = time.time_ns() // 1000
        cursor.execute("begin immediate")
        for number, turn, bodies, _ in group:
            if turn is None:
                cursor.execute(ADD_HEAD, (number,))
            else:
                write_turn(cursor, number, turn, bodies, now)
        cursor.execute("commit")


def _wake(group: list[Waiting], error: BaseException | None) -> None:
    """In the loop's thread, once per group: a wake-up per waiter costs eight times as much."""
    for *_, future in group:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def fill(path: Path, sessions: Sequence[tuple[int, int]], turns: Sequence[Turn]) -> int:
    """Give each (session, depth) its history, sessions in turn, and return how many turns."""
    Floor.make(path)
    floor = Floor(path)
    floor.connection.execute("pragma synchronous = off")
    floor.create(number for number, _ in sessions)
    count = 0
    for depth in range(max(depth for _, depth in sessions)):
        floor.cursor.execute("begin immediate")
        for number, deep in sessions:
            if depth < deep:
                turn = turns[count % len(turns)]
                write_turn(floor.cursor, number, turn, turn.bodies(), time.time_ns() // 1000)
                count += 1
        floor.cursor.execute("commit")
        floor.tidy()
    floor.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    floor.close()
    return count
