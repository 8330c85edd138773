"""A queue whose producers and workers are processes, and a nemesis that meddles with them.

in_processes     eight processes; they are killed, or stopped until their leases have run out
in_many_lives    one process with eight threads; it is killed, and the next one goes on
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from ledgerstone.api_sync.store import Store
from ledgerstone.clock import monotonic_s
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.processes import Child, Say
from ledgerstone.testing.faults.queue_accounts import Diary
from ledgerstone.testing.faults.queue_load import (
    PRODUCERS,
    WORKERS,
    Load,
    Report,
    diary_path,
    is_drained,
    next_number,
    prepared,
    produce,
    report,
    run_threads,
    work,
)

LOOK_S = 0.01
LIFE_S = 0.3
BEGUN, DONE = b"begun", b"done"

Make = Callable[[], Backend]


def produce_in_process(say: Say, make: Make, path: str, load: Load, share: int) -> None:
    """A producer that goes on where the one before it was killed."""
    backend, place = make(), Path(path)
    produce(Store(backend), Diary(place), load, share, next_number(place, share))
    backend.close()
    say(DONE)


def work_in_process(say: Say, make: Make, path: str, load: Load, name: str) -> None:
    """A worker that goes on until it is killed."""
    work(Store(make()), Diary(Path(path)), load, name)


class Crew:
    """The processes, and the nemesis that meddles with them."""

    def __init__(self, make: Make, folder: Path, load: Load) -> None:
        self._make = make
        self._folder = folder
        self._load = load
        self._random = Random(f"{load.seed}/nemesis")
        self._count = 0
        self._stopped: dict[int, float] = {}
        self.kills = self.stops = 0
        self._producers = {n: self._producer(n) for n in range(PRODUCERS)}
        self._workers = [self._worker() for _ in range(WORKERS)]

    @property
    def is_producing(self) -> bool:
        return bool(self._producers)

    def meddle(self) -> None:
        """Kill somebody, or stop a worker for longer than its lease lasts."""
        # Both happen in a short life too.
        draw = {0: 0.2, 1: 0.6}.get(self.kills + self.stops, self._random.random())
        if draw < 0.1 and self._producers:
            share = self._random.choice(list(self._producers))
            if DONE in self._producers[share].kill():
                del self._producers[share]
            else:
                self._producers[share] = self._producer(share)
            self.kills += 1
            return
        n = self._random.randrange(WORKERS)
        pid = self._workers[n].pid
        if draw < 0.5:
            self._stopped.pop(pid, None)
            self._workers[n].kill()
            self._workers[n] = self._worker()
            self.kills += 1
        elif pid not in self._stopped and len(self._stopped) < WORKERS // 2:
            os.kill(pid, signal.SIGSTOP)
            wait_s = self._load.ttl_s * self._random.uniform(0.8, 2.5)
            self._stopped[pid] = monotonic_s() + wait_s
            self.stops += 1

    def look(self) -> None:
        """Let go on who was stopped for long enough, and hear who is done or broken."""
        for pid, until_s in list(self._stopped.items()):
            if monotonic_s() > until_s:
                os.kill(pid, signal.SIGCONT)
                del self._stopped[pid]
        for share, child in list(self._producers.items()):
            if DONE in list(child.hear(0)):
                child.kill()
                del self._producers[share]
        for child in self._workers:
            list(child.hear(0))

    def close(self) -> None:
        for child in (*self._workers, *self._producers.values()):
            child.kill()

    def _producer(self, share: int) -> Child:
        path = str(diary_path(self._folder, f"p{share}"))
        return Child(produce_in_process, self._make, path, self._load, share)

    def _worker(self) -> Child:
        self._count += 1
        name = f"w{self._count}"
        path = str(diary_path(self._folder, name))
        return Child(work_in_process, self._make, path, self._load, name)


def in_processes(
    make: Make, folder: Path, load: Load, change: Callable[[Backend], Backend] | None = None
) -> Report:
    """Eight processes on one place, until everything is worked off; `change` is the workers'."""
    backend = make()
    store = prepared(backend)
    inside = make if change is None else partial(_changed, make, change)
    crew, started = Crew(inside, folder, load), monotonic_s()
    next_s = started + load.every_s
    try:
        while crew.is_producing or not is_drained(backend):
            if (now_s := monotonic_s()) - started > load.time_s:
                break  # What is not done by now is left, and the books will say so.
            if now_s > next_s:
                crew.meddle()
                next_s = now_s + load.every_s
            crew.look()
            time.sleep(LOOK_S)
    finally:
        crew.close()
    found = report(store, folder)
    found.kills, found.stops = crew.kills, crew.stops
    backend.close()
    return found


def _changed(make: Make, change: Callable[[Backend], Backend]) -> Backend:
    return change(make())


# --- one process after the other


def live(say: Say, make: Make, folder: str, load: Load, life: int) -> None:
    """All threads in one process, until everything is done or it is killed."""
    backend = make()
    say(BEGUN)
    run_threads(backend, Path(folder), load, life)
    backend.close()
    say(DONE)


def in_many_lives(make: Make, folder: Path, load: Load, kills: int) -> Report:
    """Kill the process at random moments; the last one may finish."""
    random = Random(f"{load.seed}/lives")
    for number in range(kills + 1):
        child = Child(live, make, str(folder), load, number)
        try:
            words = child.hear(load.time_s)
            next(words, None)
            if number < kills:
                time.sleep(random.uniform(0, LIFE_S))
            elif next(words, None) != DONE:
                raise AssertionError("the last one did not finish")
        finally:
            child.kill()
    backend = make()
    found = report(Store(backend), folder)
    found.kills = kills
    backend.close()
    return found
