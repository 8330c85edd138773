"""Recorded lease calls of many workers could have happened one at a time; a flipped one not."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random

import pytest

from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.crowds import switching_often
from ledgerstone.testing.faults.lease_load import flips, make_sessions, play, record
from ledgerstone.testing.faults.linear import Op, check
from ledgerstone.testing.faults.races import Race
from ledgerstone.testing.faults.sabotage_rules import IgnoresFence
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place, every_place, every_shared_place, opened

pytestmark = [pytest.mark.faults, pytest.mark.slow]

WORKERS = 8
SESSIONS = 20
SERIES = 500
"""Calls of one worker before all of them begin anew together."""

FLIPS = 40
SQLITE = PLACES["sqlite"]


def names_of(series: int) -> list[str]:
    """Fresh sessions now and then keep each single history short enough to be judged quickly."""
    return [f"s{series}-{n}" for n in range(SESSIONS)]


def recorded_by_threads(backend: Backend, series: int, seed: int) -> list[Op]:
    names, found = names_of(series), [list[Op]() for _ in range(WORKERS)]
    make_sessions(backend, names)

    def work(n: int) -> None:
        found[n] = record(backend, f"t{n}", names, SERIES, seed + series)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(WORKERS)]
    with switching_often():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(len(ops) == SERIES for ops in found)
    return [op for ops in found for op in ops]


@every_place
def test_threads(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    seen: Counter[str] = Counter()
    title = "lease history is linearizable (8 threads)"
    with (
        scoreboard.line(title, place.name, seed) as line,
        opened(place, tmp_path) as backend,
    ):
        for series in range(scale(2, 25)):
            history = place.timed(recorded_by_threads(backend, series, seed))
            line.n += len(history)
            line.violations += check(history)
            seen.update(f"{op.call} {op.result}" for op in history)
    print(dict(seen))
    assert_everything_happened(seen)


@every_shared_place
def test_processes(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    seen: Counter[str] = Counter()
    with (
        scoreboard.line("lease history is linearizable (8 processes)", place.name, seed) as line,
        quick_disk(tmp_path) as folder,
    ):
        make = place.at(folder)
        backend = make()
        with Race(make, WORKERS) as race:
            for series in range(scale(2, 25)):
                make_sessions(backend, names_of(series))
                (outcomes,) = race.run(partial(play, names_of(series), SERIES, seed), 1, series)
                history = place.timed([op for one in outcomes for op in one.answer])
                line.n += len(history)
                line.violations += check(history)
                seen.update(f"{op.call} {op.result}" for op in history)
        backend.close()
    print(dict(seen))
    assert_everything_happened(seen)


def assert_everything_happened(seen: Counter[str]) -> None:
    """A history in which nobody was ever refused would prove little."""
    wanted = {
        "take ok",
        "take no",
        "renew ok",
        "renew Fenced",
        "renew LeaseExpired",
        "release ok",
        "release no",
        "commit ok",
        "commit Fenced",
        "commit LeaseExpired",
        "commit LeaseHeld",
        "get ok",
        "get no",
        "break ok",
        "break no",
    }
    assert wanted <= seen.keys()


# --- negative controls


@every_place
def test_control_each_flipped_answer_is_found(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    title = "lease history, one answer flipped"
    with (
        scoreboard.line(title, place.name, seed, control=True) as line,
        opened(place, tmp_path) as backend,
    ):
        history = place.timed(recorded_by_threads(backend, 0, seed))
        assert list(check(history)) == []
        for lie in flips(history, Random(seed), FLIPS):
            found = list(check(lie))
            assert len(found) == 1, "one lie, one session"
            line.n += 1
            line.violations += found


def test_control_a_store_that_ignores_the_fence_is_found(
    tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("lease history, IgnoresFence", "sqlite", seed, control=True) as line,
        opened(SQLITE, tmp_path) as backend,
    ):
        history = recorded_by_threads(IgnoresFence(backend), 0, seed)
        line.n = len(history)
        line.violations += check(history)
