"""Power cuts at the n-th operation; the disk comes back with any part of what was not flushed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ledgerstone.testing.faults.storage import Stage, Tally, cut_everywhere
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.points import some

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(1800)]

DAMAGE = ("unusable", "untyped", "integrity", "half", "doubled", "defects")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as quick:
        yield quick


def named(tally: Tally, *names: str) -> list[str]:
    return [one for one in tally.violations if any(f" {name}: " in one for name in names)]


def test_nothing_acknowledged_is_lost(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    stage, random = Stage(folder), Random(seed)
    with scoreboard.line("power cut at the n-th operation", "sqlite", seed) as line:
        places = some(stage, seed, scale(30, 480))
        tally = cut_everywhere(stage, random, seeds=scale(3, 20), points=places)
        line.n, line.violations = tally.images, tally.violations
        line.note = f"{tally.points} points, {tally.acked} acknowledgements"


def test_a_store_that_is_being_made(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    """From nothing: the file, its schema, its first commits; names may be lost as well."""
    stage = Stage(folder, born=False, steps=())
    with scoreboard.line("power cut while a store is made", "sqlite", seed) as line:
        places = some(stage, seed, scale(30, 300))
        tally = cut_everywhere(stage, Random(seed), seeds=scale(3, 10), points=places)
        line.n, line.violations = tally.images, tally.violations
        line.note = f"{tally.points} points"


def test_durability_process_loses_turns_and_damages_nothing(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    """The control and its other half: turns go missing from the end, and the file stays whole."""
    stage = Stage(folder, durability="process")
    with scoreboard.line("power cut at durability process: damage", "sqlite", seed) as line:
        places = some(stage, seed, scale(30, 150))
        tally = cut_everywhere(stage, Random(seed), seeds=scale(2, 5), points=places)
        line.n, line.violations = tally.images, named(tally, *DAMAGE)
    with scoreboard.line(
        "power cut at durability process: turns lost", "sqlite", seed, control=True
    ) as line:
        line.n, line.violations = tally.images, named(tally, "lost")


def test_control_a_disk_that_lies_about_flushing_is_found_out(
    folder: Path, scoreboard: Scoreboard, seed: int
) -> None:
    stage = Stage(folder)
    with scoreboard.line("flushes do nothing", "sqlite", seed, control=True) as line:
        tally = cut_everywhere(
            stage,
            Random(seed),
            seeds=3,
            points=some(stage, seed, 20),
            lying=True,
            enough=lambda so_far: bool(so_far.violations),
        )
        line.n, line.violations = tally.images, tally.violations
