"""Turns that are repeated, retried and sent by several at once are paid for once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.testing.faults.sabotage_rules import ForgetsTurns
from ledgerstone.testing.faults.usage_replays import (
    NOON_US,
    SENDS_PER_TURN,
    CountsReplays,
    LosesAnswers,
    differences,
    make_turns,
    set_budgets,
    storm,
)
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.faults.places import PLACES, Place, every_place, opened

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SEED = 20261116


@pytest.mark.promise(111, 116, 158)
@every_place
def test_nothing_is_counted_twice(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    clock = ManualClock(NOON_US)
    turns = make_turns(scale(2_000, 100_000) // SENDS_PER_TURN, SEED)
    with (
        scoreboard.line("usage: replays, lost answers, 8 threads", place.name, SEED) as line,
        opened(place, tmp_path, clock) as backend,
    ):
        set_budgets(backend)
        losing = LosesAnswers(backend, SEED)
        sends, wrong = storm(losing, clock, turns, SEED)
        line.n = sends + losing.lost
        line.note = f"{len(turns):,} turns, {losing.lost:,} answers lost"
        line.violations += wrong
        line.violations += differences(backend, turns)


@pytest.mark.parametrize("sabotage", [CountsReplays, ForgetsTurns])
@every_place
def test_control_a_double_count_is_found(
    place: Place, sabotage: type[Wrapper], tmp_path: Path, scoreboard: Scoreboard
) -> None:
    clock = ManualClock(NOON_US)
    turns = make_turns(100, SEED)
    title = f"usage: replays, {sabotage.__name__}"
    with (
        scoreboard.line(title, place.name, SEED, control=True) as line,
        opened(place, tmp_path, clock) as backend,
    ):
        set_budgets(backend)
        line.n, _ = storm(sabotage(backend), clock, turns, SEED)
        line.violations += differences(backend, turns)
        assert any("budget" in text for text in line.violations)
        assert any("records" in text for text in line.violations)


def test_control_a_single_use_too_many_is_found(tmp_path: Path, scoreboard: Scoreboard) -> None:
    """One repeated turn among all, counted twice."""
    clock, place = ManualClock(NOON_US), PLACES["sqlite"]
    turns = make_turns(100, SEED)
    with (
        scoreboard.line("usage: one turn counted twice", place.name, SEED, control=True) as line,
        opened(place, tmp_path, clock) as backend,
    ):
        line.n, wrong = storm(backend, clock, turns, SEED)
        assert not wrong
        assert list(differences(backend, turns)) == []
        CountsReplays(backend).write(turns[57].command)
        line.violations += differences(backend, turns)
