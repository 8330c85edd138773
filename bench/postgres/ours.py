"""Ledgerstone on PostgreSQL: the same code as on SQLite, with another URL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.floor_queue import payload
from bench.ours import Ours, OursAsync, session_id
from bench.postgres.place import url
from bench.work import Work
from ledgerstone import AsyncStore, Store
from ledgerstone.records.work import Batch, Taken

PER_CALL: Final = 50


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
        """Each session gets a batch, a worker takes all of them and completes each with a turn."""
        return await self._serve("default", numbers, batches, size)

    async def served_at_once(self, numbers: Sequence[int], batches: int, size: int) -> int:
        """The same by several workers, each with its own queue and its part of the sessions."""
        parts = [numbers[at : at + PER_CALL] for at in range(0, len(numbers), PER_CALL)]
        done = await asyncio.gather(
            *(self._serve(f"part-{n}", part, batches, size) for n, part in enumerate(parts))
        )
        return sum(done)

    async def _serve(self, queue: str, numbers: Sequence[int], batches: int, size: int) -> int:
        names = [session_id(number) for number in numbers]
        for _ in range(batches):
            for place in range(size):
                queued = await self.store.work.enqueue_many(
                    ((name, payload(place)) for name in names), queue=queue
                )
                if not all(isinstance(one, Batch) for one in queued):
                    raise RuntimeError("a batch was refused")
            for _ in range(size):
                taken = await self.store.work.take_many(len(names), queue=queue)
                if {one.lease.session for one in taken} != set(names):
                    raise RuntimeError("a session was taken twice, or not at all")
                await asyncio.gather(*(self._complete(one) for one in taken))
        return batches * len(names) * size

    async def _complete(self, taken: Taken) -> None:
        draft = self.store.turns.begin(taken.lease)
        draft.complete(taken.claim)
        await draft.commit(release=True)


def open_blocking(path: Path) -> Threaded:
    return Threaded(Store.open(url(path)))


async def open_async(path: Path) -> Served:
    return Served(await AsyncStore.open(url(path)))
