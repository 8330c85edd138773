"""Recorded calls of many workers on leases and queues could have happened one at a time."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import pytest

from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.crowds import switching_often
from ledgerstone.testing.faults.lease_load import make_sessions
from ledgerstone.testing.faults.queue_calls import Worker, flips, play
from ledgerstone.testing.faults.queue_linear import QueueOp, check, unhurried
from ledgerstone.testing.faults.queue_sabotage import CompletesLate
from ledgerstone.testing.faults.races import Race
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place, every_place, every_shared_place, opened

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(1800)]

WORKERS = 8
SESSIONS = 20
SERIES = 400
"""Calls of one worker before all of them begin anew together."""

FLIPS = 20
SQLITE = PLACES["sqlite"]


def names_of(series: int) -> list[str]:
    """Fresh sessions now and then keep each single history short enough to be judged quickly."""
    return [f"s{series}-{n}" for n in range(SESSIONS)]


def recorded_by_threads(backend: Backend, series: int, seed: int) -> list[QueueOp]:
    names, found = names_of(series), [list[QueueOp]() for _ in range(WORKERS)]
    make_sessions(backend, names)

    def work(n: int) -> None:
        found[n] = Worker(f"t{n}", names, seed + series).record(backend, SERIES)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(WORKERS)]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(len(ops) == SERIES for ops in found)
    return [op for ops in found for op in ops]


def judged(place: Place, history: list[QueueOp]) -> list[QueueOp]:
    """What of a history this backend answers for."""
    timed = place.timed(history)
    return unhurried(timed) if place.passes_over else timed


@every_place
def test_threads(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    seen: Counter[str] = Counter()
    title = "queue history is linearizable (8 threads)"
    with scoreboard.line(title, place.name, seed) as line, opened(place, tmp_path) as backend:
        for series in range(scale(1, 25)):
            history = judged(place, recorded_by_threads(backend, series, seed))
            line.n += len(history)
            line.violations += check(history)
            seen.update(f"{op.call} {op.result}" for op in history)
    assert_everything_happened(seen)


@every_shared_place
def test_processes(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    seen: Counter[str] = Counter()
    with (
        scoreboard.line("queue history is linearizable (8 processes)", place.name, seed) as line,
        quick_disk(tmp_path) as folder,
    ):
        make = place.at(folder)
        backend = make()
        with Race(make, WORKERS) as race:
            for series in range(scale(1, 25)):
                make_sessions(backend, names_of(series))
                (outcomes,) = race.run(partial(play, names_of(series), SERIES, seed), 1, series)
                history = judged(place, [op for one in outcomes for op in one.answer])
                line.n += len(history)
                line.violations += check(history)
                seen.update(f"{op.call} {op.result}" for op in history)
        backend.close()
    assert_everything_happened(seen)


def assert_everything_happened(seen: Counter[str]) -> None:
    """A history in which nobody was ever refused would prove little."""
    print(dict(seen))
    wanted = {
        "take work ok",
        "take work no",
        "enqueue ok",
        "claim ok",
        "claim no",
        "claim Fenced",
        "claim LeaseExpired",
        "complete ok",
        "complete Fenced",
        "complete LeaseExpired",
        "complete ClaimLost",
        "abandon ok",
        "abandon no",
        "renew claim ok",
        "renew claim ClaimLost",
    }
    assert wanted <= seen.keys(), wanted - seen.keys()


# --- negative controls


@every_place
def test_control_each_flipped_answer_is_found(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    title = "queue history, one answer flipped"
    with (
        scoreboard.line(title, place.name, seed, control=True) as line,
        opened(place, tmp_path) as backend,
    ):
        history = judged(place, recorded_by_threads(backend, 0, seed))
        assert list(check(history)) == []
        for lie in flips(history, Random(seed), FLIPS):
            found = list(check(lie))
            line.n += 1
            line.violations += found
        assert len(line.violations) == line.n, "each lie is found, in its own session"


def test_control_a_store_that_looks_at_no_fence_is_found(
    tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("queue history, CompletesLate", "sqlite", seed, control=True) as line,
        opened(SQLITE, tmp_path) as backend,
    ):
        history = recorded_by_threads(CompletesLate(backend), 0, seed)
        line.n = len(history)
        line.violations += check(history)
