"""Items that fail for ever, or kill their worker: buried in time, and the others do not wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgerstone.api_sync.store import Store
from ledgerstone.clock import ManualClock
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.queue_poison import KILLS, Mix, Trial, committed, die_often, fill
from ledgerstone.testing.faults.queue_sabotage import CountsNoFailures
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place, every_place, every_shared_place, opened

pytestmark = [pytest.mark.faults, pytest.mark.crash, pytest.mark.timeout(600)]

START_US = 1_700_000_000_000_000
SLOWER_MAX = 2
POISON = 4
TIME_S = 60.0
ATTEMPTS = 3


def rounds_without(place: Place, folder: Path, each: int) -> int:
    clock = ManualClock(START_US)
    with opened(place, folder, clock) as backend:
        return Trial(Store(backend), clock, Mix(each)).others()


def hold(backend: Backend, clock: ManualClock, each: int, plain: int, line: Line) -> None:
    mix = Mix(each, POISON)
    trial = Trial(Store(backend), clock, mix)
    rounds = trial.others()
    line.n = len(mix.good) + len(mix.bad)
    line.note = f"{plain} rounds without poison, {rounds} with it"
    if rounds >= SLOWER_MAX * plain:
        line.violations.append(f"{rounds} rounds instead of {plain}")
    line.violations += trial.burial()
    if not line.violations:
        line.violations += trial.replay()


@every_place
def test_poison_is_buried_and_the_others_go_on(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    each, clock = scale(5, 50), ManualClock(START_US)
    plain = rounds_without(place, tmp_path, each)
    with (
        scoreboard.line("poison in the queue: buried, replayed once", place.name) as line,
        opened(place, tmp_path, clock) as backend,
    ):
        hold(backend, clock, each, plain, line)


def test_control_failures_that_nobody_counts_are_found(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    clock = ManualClock(START_US)
    with (
        scoreboard.line("poison in the queue, CountsNoFailures", "memory", control=True) as line,
        opened(PLACES["memory"], tmp_path, clock) as backend,
    ):
        hold(CountsNoFailures(backend), clock, 2, 10, line)
        assert any("is not dead" in one for one in line.violations)


@every_shared_place
def test_items_that_kill_their_worker(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    """Here workers are really killed, and new ones come."""
    mix = Mix(each=scale(2, 20), poison=scale(1, 5))
    with (
        scoreboard.line("items that kill their worker (4 processes)", place.name) as line,
        quick_disk(tmp_path) as folder,
    ):
        make = place.at(folder)
        backend = make()
        store = Store(backend)
        killers = [(session, item) for session, item in mix.bad if item.startswith(KILLS)]
        fill(store, Mix(mix.each), None)
        for session, item in killers:
            store.work.enqueue(session, item, id=item, max_attempts=ATTEMPTS, priority=1)
        deaths = die_often(make, TIME_S)
        dead = {one.id: one.batch.attempts for one in store.work.dead().items}
        found = committed(store)
        backend.close()
        line.n = len(mix.good) + len(killers)
        line.note = f"{deaths} deaths"
        line.violations += [f"{item}: {found[item]}" for _, item in mix.good if found[item] != 1]
        if dead != {item: ATTEMPTS for _, item in killers}:
            line.violations.append(f"dead: {dead}")
        if deaths != ATTEMPTS * len(killers):
            line.violations.append(f"{deaths} deaths for {len(killers)} items")
