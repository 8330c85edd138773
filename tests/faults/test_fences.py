"""A fence never repeats or falls: not over release, restart, purge or re-creation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.fences import Grants
from ledgerstone.testing.faults.sabotage_rules import ForgetsFences
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place, every_place

pytestmark = [pytest.mark.faults, pytest.mark.slow]


@every_place
def test_fences_rise_for_ever(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line("fences rise over restart and purge", place.name, seed) as line,
        quick_disk(tmp_path) as folder,
    ):
        grants = Grants(place.at(folder), persistent=place.persistent, seed=seed)
        line.n = scale(10 * place.few, 10 * place.rounds)
        line.violations += grants.take(line.n)
        grants.close()
        line.note = f"{grants.reopened:,} restarts, {grants.purged:,} purges"
        assert grants.purged
        assert grants.reopened or not place.persistent


def test_control_a_fence_that_begins_anew_is_found(
    tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("fences, ForgetsFences", "sqlite", seed, control=True) as line,
        quick_disk(tmp_path) as folder,
    ):
        make = partial(forgetful, PLACES["sqlite"].at(folder))
        grants = Grants(make, persistent=False, seed=seed)
        line.n = 500
        line.violations += grants.take(line.n)
        grants.close()


def forgetful(make: Callable[[], Backend]) -> Backend:
    return ForgetsFences(make())
