"""The backends that the concurrency tests run on, by name: how to open one at a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from ledgerstone.backends.file import open_file
from ledgerstone.backends.memory import open_memory
from ledgerstone.backends.sqlite import open_sqlite
from ledgerstone.clock import Clock, SystemClock
from ledgerstone.ports.backend import Backend
from tests.backends.places import quick_disk


class Place(msgspec.Struct, frozen=True):
    """What the harness must know of a backend: the rest is the same for all."""

    name: str
    open: Callable[..., Backend]
    processes: bool = False
    persistent: bool = True
    rounds: int = 10_000

    def at(self, folder: Path, clock: Clock | None = None) -> Callable[[], Backend]:
        """What opens this backend in the folder, again and again; importable in a child."""
        return partial(self.open, str(folder / "store"), clock=clock)


def open_new_memory(path: str, *, clock: Clock | None = None) -> Backend:
    return open_memory(None, clock or SystemClock())


PLACES = {
    "memory": Place("memory", open_new_memory, persistent=False),
    "sqlite": Place("sqlite", open_sqlite, processes=True),
    # Every command is a flush of its own here, so the long contests have fewer rounds.
    "file": Place("file", open_file, rounds=2_500),
}

every_place = pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())


@contextmanager
def opened(place: Place, folder: Path, clock: Clock | None = None) -> Iterator[Backend]:
    """The backend on a quick disk: these tests ask who wins, not how fast a disk flushes."""
    with quick_disk(folder) as quick:
        backend = place.at(quick, clock)()
        try:
            yield backend
        finally:
            backend.close()
