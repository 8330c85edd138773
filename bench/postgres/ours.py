"""Ledgerstone on PostgreSQL: the same code as on SQLite, with another URL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.floor_queue import payload
from bench.ours import Ours, OursAsync, session_id
from bench.postgres.place import url
from bench.work import Work
from ledgerstone import AsyncStore, Store


class Threaded(Ours):
    """The blocking face, and a crowd of threads: one per session."""

    def crowd(self, numbers: Sequence[int], turns: int, seed: int) -> int:
        work = Work(seed)

        def session(number: int) -> int:
            for place in range(turns):
                self.commit(number, work.turn(number + place))
            return turns

        with ThreadPoolExecutor(len(numbers)) as threads:
            return sum(threads.map(session, numbers))


class Served(OursAsync):
    """The async face, and the queue as a worker of many sessions sees it."""

    async def served(self, numbers: Sequence[int], batches: int, size: int) -> int:
        """Each session gets items, a worker takes it whole and completes it with a turn."""
        for _ in range(batches):
            await asyncio.gather(*(self._enqueue(number, size) for number in numbers))
            taken = await asyncio.gather(*(self._take() for _ in numbers))
            if len(set(taken)) != len(numbers):
                raise RuntimeError("a session was taken twice")
        return batches * len(numbers) * size

    async def _enqueue(self, number: int, size: int) -> None:
        payloads = [payload(place) for place in range(size)]
        await self.store.work.enqueue(session_id(number), *payloads)

    async def _take(self) -> str:
        taken = await self.store.work.take()
        if taken is None:
            raise RuntimeError("nothing to take")
        draft = self.store.turns.begin(taken.lease)
        draft.complete(taken.claim)
        await draft.commit(release=True)
        return taken.lease.session


def open_blocking(path: Path) -> Threaded:
    return Threaded(Store.open(url(path)))


async def open_async(path: Path) -> Served:
    return Served(await AsyncStore.open(url(path)))
