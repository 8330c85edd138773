"""Clocks that jump and stand still: no batch has two owners, none is done twice, none is lost."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from ledgerstone.testing.faults.clocks import HOUR_S, START_US, Handle, JumpingClock
from ledgerstone.testing.faults.queue_clocks import QueueWalk
from ledgerstone.testing.faults.queue_sabotage import CompletesLate, DropsWhatIsHandedBack
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place, every_place, opened

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(1800)]

SQLITE = PLACES["sqlite"]
SKEWS_S = (0, HOUR_S, -24 * HOUR_S)


@every_place
def test_clocks_that_jump(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    """Where several may open the place, three do, with clocks that are hours apart."""
    with (
        scoreboard.line("queues while the clocks jump", place.name, seed) as line,
        quick_disk(tmp_path) as folder,
        ExitStack() as stack,
    ):
        handles = []
        for skew_s in SKEWS_S if place.processes else SKEWS_S[:1]:
            clock = JumpingClock(START_US + skew_s * 1_000_000)
            handles.append(Handle(place.at(folder, clock)(), clock))
            stack.callback(handles[-1].backend.close)
        walk = QueueWalk(handles, seed)
        line.n = scale(2_000, 30_000)
        line.violations += walk.steps(line.n)
        walked = walk.done
        line.violations += walk.ending()
        line.note = f"{walk.done:,} items done, {walk.refused:,} calls refused"
        assert walked > line.n / 100
        assert walk.refused > line.n / 100


@pytest.mark.parametrize("sabotage", [CompletesLate, DropsWhatIsHandedBack])
def test_control_jumps_with_a_forgotten_rule(
    sabotage: type[Wrapper], tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    clock = JumpingClock()
    title = f"queues while the clocks jump, {sabotage.__name__}"
    with (
        scoreboard.line(title, "sqlite", seed, control=True) as line,
        opened(SQLITE, tmp_path, clock) as backend,
    ):
        line.n = 1_000
        walk = QueueWalk([Handle(sabotage(backend), clock)], seed)
        line.violations += walk.steps(line.n)
        line.violations += walk.ending()
