"""kill -9 between any two statements of a play, and the proof that it would be noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.sabotage import AcknowledgesEarly, CommitsInHalves
from ledgerstone.testing.faults.scripts import PLAY, SHORT, WORK
from ledgerstone.testing.faults.statements import kill_everywhere
from ledgerstone.testing.faults.storage import Stage
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.points import FAR, points

pytestmark = [pytest.mark.faults, pytest.mark.crash, pytest.mark.timeout(1800)]

LIES = {"lost": AcknowledgesEarly, "differs": CommitsInHalves}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as quick:
        yield quick


def test_kill_before_the_nth_statement(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    stage = Stage(folder, steps=PLAY if scale(0, 1) else SHORT)
    with scoreboard.line("kill -9 between two statements", "sqlite", seed) as line:
        tally = kill_everywhere(stage, points=points(scale, seed, 4))
        line.n, line.violations = tally.points, tally.violations


def test_kill_before_the_nth_statement_of_the_queue(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    """Enqueue, take, fail, claim, complete with a ticket and more work, resolve, bury, replay."""
    stage = Stage(folder, steps=WORK)
    with scoreboard.line("kill -9 between two statements of the queue", "sqlite", seed) as line:
        tally = kill_everywhere(stage, points=points(scale, seed, 14))
        line.n, line.violations = tally.points, tally.violations


def test_kill_while_a_store_is_made(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    stage = Stage(folder, born=False, steps=())
    with scoreboard.line("kill -9 between two statements of a new store", "sqlite", seed) as line:
        tally = kill_everywhere(stage, points=points(scale, seed, 5))
        line.n, line.violations = tally.points, tally.violations


@pytest.mark.parametrize("sign", LIES)
def test_control_a_lie_is_found_out(folder: Path, scoreboard: Scoreboard, sign: str) -> None:
    lie: Callable[[Backend], Backend] = LIES[sign]
    name = f"kill -9 between two statements: {LIES[sign].__name__}"
    with scoreboard.line(name, "sqlite", control=True) as line:
        tally = kill_everywhere(
            Stage(folder, steps=SHORT, change=lie),
            points=range(20, FAR, 7),
            enough=lambda so_far: any(sign in one for one in so_far.violations),
        )
        line.n = tally.points
        line.violations = [one for one in tally.violations if sign in one]
