"""The stand: every contender with its own file of the same history, opened side by side."""

from __future__ import annotations

import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bench import floors
from bench.measure import Reader, Writer
from bench.work import Work

if TYPE_CHECKING:
    from bench.ours import Ours, OursAsync

# Many shallow sessions and some deep ones: the lone commits of a run then add little to each.
SHALLOW_DEPTH = 100
DEEP_DEPTH = 1000
SHALLOW = range(1, 17)
DEEP = range(101, 105)
READ = 201
BUSY = range(301, 365)
FRESH_FROM = 10_000


class Stand:
    def __init__(self, directory: Path, work: Work, *, quick: bool = False) -> None:
        self.directory = directory
        # Building the histories must leave time to measure; a quick run adds little to each.
        self.shallow = SHALLOW[:4] if quick else SHALLOW
        self.deep = DEEP[:1] if quick else DEEP
        self.work = work
        self.fresh = FRESH_FROM
        self.turns = 0
        self.notes: list[str] = []
        self.closers: list[Callable[[], Awaitable[None] | None]] = []
        self.floor: floors.Floor
        self.group: floors.GroupFloor
        self.ours: Ours | None = None
        self.ours_async: OursAsync | None = None

    @property
    def histories(self) -> list[tuple[int, int]]:
        shallow = [(number, SHALLOW_DEPTH) for number in self.shallow]
        deep = [(number, DEEP_DEPTH) for number in (*self.deep, READ)]
        return [*shallow, *deep, *((number, 0) for number in BUSY)]

    @property
    def writers(self) -> list[Writer]:
        found: list[Writer] = [self.floor, self.group]
        return [*found, *(one for one in (self.ours, self.ours_async) if one is not None)]

    @property
    def readers(self) -> list[Reader]:
        found: list[Reader] = [self.floor]
        return [*found, *(one for one in (self.ours, self.ours_async) if one is not None)]

    def numbers(self, depth: int, count: int) -> Iterator[int]:
        """Sessions that hold `depth` turns; those of depth 0 are new and must be created."""
        if depth == 0:
            self.fresh += count
            yield from range(self.fresh - count, self.fresh)
            return
        pool = self.shallow if depth == SHALLOW_DEPTH else self.deep
        for _ in range(count):
            self.turns += 1
            yield pool[self.turns % len(pool)]

    async def build(self) -> None:
        """Write each history once and give both contenders of a kind a copy of the file."""
        floors.fill(self.path("floor-base"), self.histories, self.work.turns)
        floors.Floor.make(self.path("floor-empty"))
        self.floor = floors.Floor(self._copy("floor-base", "floor"))
        self.closers.append(self.floor.close)
        self.group = floors.GroupFloor(self._copy("floor-base", "group"))
        self.closers.append(self.group.close)
        try:
            from bench import ours
        except ImportError as error:
            self.notes.append(f"the floors only: {error}")
            return
        start = time.perf_counter()
        count = await ours.fill(self.path("ours-base"), self.histories, self.work.turns)
        self.notes.append(f"filled {count:,} turns in {time.perf_counter() - start:.1f} s")
        await ours.fill(self.path("ours-empty"), [], self.work.turns)
        self.ours = ours.Ours(self._copy("ours-base", "ours"))
        self.closers.append(self.ours.close)
        self.ours_async = await ours.OursAsync.open(self._copy("ours-base", "ours-async"))
        self.closers.append(self.ours_async.close)

    async def close(self) -> None:
        """Close what was opened, also when building broke off half way."""
        while self.closers:
            closing = self.closers.pop()()
            if closing is not None:
                await closing

    def path(self, name: str) -> Path:
        return self.directory / f"{name}.db"

    def size_bytes(self, name: str) -> int:
        """Everything the store keeps on disk under this name, its log and side files too."""
        return sum(path.stat().st_size for path in self.directory.glob(f"{name}.db*"))

    def _copy(self, source: str, target: str) -> Path:
        for path in self.directory.glob(f"{source}.db*"):
            shutil.copyfile(path, self.directory / path.name.replace(source, target, 1))
        return self.path(target)
