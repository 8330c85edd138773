"""The backends that the concurrency tests run on, by name: how to open one at a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from ledgerstone.clock import Clock, SystemClock
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.linear import Op
from tests.backends.places import quick_disk
from tests.postgres_beds import open_store, store_in

AnyOp = TypeVar("AnyOp", bound=Op)


class Place(msgspec.Struct, frozen=True):
    """What the harness must know of a backend: the rest is the same for all."""

    name: str
    open: Callable[..., Backend]
    processes: bool = False
    persistent: bool = True
    few: int = 200
    """Rounds of a contest in `make test`."""
    rounds: int = 10_000
    """Rounds of a contest in `make faults`."""
    meddle_s: float = 0.1
    """How often a nemesis meddles: whoever it killed must have a chance to begin again."""
    where: Callable[[Path], str] = lambda folder: str(folder / "store")
    lag_us: int = 0
    """How far its time, which is a server's, may be behind when a call begins."""
    trip_us: int = 0
    """How long a call may be on its way before it is judged."""
    passes_over: bool = False
    """Takers of work do not wait for a session that somebody is busy with."""

    def at(self, folder: Path, clock: Clock | None = None) -> Callable[[], Backend]:
        """What opens this backend in the folder, again and again; importable in a child."""
        return partial(self.open, self.where(folder), clock=clock)

    def timed(self, history: list[AnyOp]) -> list[AnyOp]:
        """Recorded calls, with the earliest time that this backend may have looked at."""
        return [replace(op, start_us=op.start_us - self.lag_us) for op in history]


def open_new_memory(path: str, *, clock: Clock | None = None) -> Backend:
    return open_memory(None, clock or SystemClock())


PLACES = {
    "memory": Place("memory", open_new_memory, persistent=False),
    "sqlite": Place("sqlite", open_sqlite, processes=True),
    # Every command is a flush of its own here, so the long contests have fewer rounds.
    "file": Place("file", open_file, rounds=2_500),
    # A folder stands for a database; round trips make it slower than the others.
    "postgres": Place(
        "postgres",
        open_store,
        processes=True,
        few=30,
        rounds=1_000,
        meddle_s=0.4,
        where=store_in,
        lag_us=5_000,
        trip_us=6_000,
        passes_over=True,
    ),
}

SHARED = {name: place for name, place in PLACES.items() if place.processes}

every_place = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
every_shared_place = pytest.mark.parametrize("place", SHARED.values(), ids=SHARED.keys())


@contextmanager
def opened(place: Place, folder: Path, clock: Clock | None = None) -> Iterator[Backend]:
    """The backend on a quick disk: these tests ask who wins, not how fast a disk flushes."""
    with quick_disk(folder) as quick:
        backend = place.at(quick, clock)()
        try:
            yield backend
        finally:
            backend.close()
