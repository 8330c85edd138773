"""The floor: the least code that does the same durable work on SQLite, in the caller's thread.

Seven rows per turn (four messages, head, run, usage) in WAL mode with `synchronous=FULL`, one
COMMIT per turn; prepared statements, no layers. `floor_group.py` has the one with a writer thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from bench import floor_queue
from bench.contender import History
from bench.work import MODEL, Message, Turn, decode

CHECKPOINT_PAGES: Final = 4000

SCHEMA: Final = """
create table messages(key integer primary key, created_us integer, body blob);
create table heads(number integer primary key, revision integer, last integer, updated_us integer);
create table runs(key integer primary key, status text, started_us integer, finished_us integer);
create table usage(key integer primary key, model text, input integer, output integer);
create table work(key integer primary key, claim integer, payloads blob);
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

    def __init__(self, path: Path) -> None:
        new = not path.exists()
        self.connection = connect(path)
        if new:
            self.connection.execute(SCHEMA)
        self.cursor = self.connection.cursor()
        self.pages = 0
        self.connection.set_wal_hook(self._count)

    def create(self, numbers: Sequence[int]) -> None:
        with self.connection:
            self.cursor.executemany(ADD_HEAD, [(number,) for number in numbers])

    def attach(self, numbers: Sequence[int]) -> None:
        """There is nothing to get hold of."""

    def commit(self, number: int, turn: Turn) -> None:
        now = time.time_ns() // 1000
        self.cursor.execute("begin immediate")
        write_turn(self.cursor, number, turn, turn.bodies(), now)
        self.cursor.execute("commit")

    def tidy(self) -> None:
        """Checkpoint outside the timed part, as a writer does after it has answered."""
        if self.pages >= CHECKPOINT_PAGES:
            # Busy: another process is at it this very moment.
            with suppress(apsw.BusyError):
                self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def jobs(self, numbers: Sequence[int], batches: int, size: int) -> int:
        """Enqueue, claim and complete, three commits per batch."""
        for _ in range(batches):
            for number in numbers:
                for step in floor_queue.STEPS:
                    self.cursor.execute("begin immediate")
                    step(self.cursor, number, size)
                    self.cursor.execute("commit")
                self.tidy()
        return batches * len(numbers) * size

    def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        """Sessions in turn, without waiting for the disk; a file on disk at the end."""
        self.connection.execute("pragma synchronous = off")
        self.create([number for number, _ in histories])
        count = 0
        for depth in range(max((depth for _, depth in histories), default=0)):
            self.cursor.execute("begin immediate")
            for number, deep in histories:
                if depth < deep:
                    turn = turns[count % len(turns)]
                    write_turn(self.cursor, number, turn, turn.bodies(), time.time_ns() // 1000)
                    count += 1
            self.cursor.execute("commit")
            self.tidy()
        self.connection.execute("pragma synchronous = full")
        self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        return count

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
