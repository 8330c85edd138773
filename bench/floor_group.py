"""The floor with a writer thread: what waits is committed together and woken together.

With a lock file it is also the floor of several processes on one file: they take turns by flock
instead of by SQLite's growing sleep.
"""

from __future__ import annotations

import asyncio
import fcntl
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import apsw

from bench import floor_queue
from bench.contender import History
from bench.floors import ADD_HEAD, Floor, write_turn
from bench.work import Message, Turn

GROUP_MAX: Final = 256

# What to do with a cursor and the time. A connection may only be used by its own thread.
Job = Callable[[apsw.Cursor, int], object]
Waiting = tuple[Job, "asyncio.Future[None]"]


class GroupFloor:
    """One writer thread, one COMMIT for everything that waits."""

    def __init__(self, path: Path, *, lock: bool = False) -> None:
        self.loop = asyncio.get_running_loop()
        self.waiting: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self.lock = path.with_suffix(".lock").open("wb") if lock else None
        self.floor = Floor(path)
        self.thread = threading.Thread(target=self._write, name="floor-writer", daemon=True)
        self.thread.start()

    async def create(self, numbers: Sequence[int]) -> None:
        await asyncio.gather(*(self._put(partial(_create, number)) for number in numbers))

    def attach(self, numbers: Sequence[int]) -> None:
        """There is nothing to get hold of."""

    def tidy(self) -> None:
        """The writer thread does this itself."""

    async def commit(self, number: int, turn: Turn) -> None:
        await self._put(partial(_turn, number, turn, turn.bodies()))

    async def jobs(self, numbers: Sequence[int], batches: int, size: int) -> int:
        """Enqueue, claim and complete in all sessions at once."""

        async def session(number: int) -> None:
            for _ in range(batches):
                for step in floor_queue.STEPS:
                    await self._put(partial(_step, step, number, size))

        await asyncio.gather(*(session(number) for number in numbers))
        return batches * len(numbers) * size

    def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        raise RuntimeError("filled by the other floor, whose file this one copies")

    def load(self, number: int) -> list[Message]:
        raise RuntimeError("this floor writes only")

    def last(self, number: int, count: int) -> list[Message]:
        raise RuntimeError("this floor writes only")

    async def close(self) -> None:
        self.waiting.put(None)
        await asyncio.to_thread(self.thread.join)
        self.floor.close()

    def _put(self, job: Job) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self.loop.create_future()
        self.waiting.put((job, future))
        return future

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

    def _commit(self, cursor: apsw.Cursor, group: list[Waiting]) -> None:
        now = time.time_ns() // 1000
        if self.lock is not None:
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            cursor.execute("begin immediate")
            for job, _ in group:
                job(cursor, now)
            cursor.execute("commit")
        finally:
            if self.lock is not None:
                fcntl.flock(self.lock, fcntl.LOCK_UN)


def open_group(path: Path) -> GroupFloor:
    return GroupFloor(path)


def open_locked(path: Path) -> GroupFloor:
    return GroupFloor(path, lock=True)


def _create(number: int, cursor: apsw.Cursor, _now: int) -> None:
    cursor.execute(ADD_HEAD, (number,))


def _turn(number: int, turn: Turn, bodies: list[bytes], cursor: apsw.Cursor, now: int) -> None:
    write_turn(cursor, number, turn, bodies, now)


def _step(
    step: Callable[[apsw.Cursor, int, int], None],
    number: int,
    size: int,
    cursor: apsw.Cursor,
    _now: int,
) -> None:
    step(cursor, number, size)


def _wake(group: list[Waiting], error: BaseException | None) -> None:
    """In the loop's thread, once per group: a wake-up per waiter costs eight times as much."""
    for _, future in group:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
