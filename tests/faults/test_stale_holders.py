"""SIGSTOP past the end of a lease, takeover, SIGCONT: every stale write is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgerstone.testing.faults.sabotage_rules import IgnoresFence
from ledgerstone.testing.faults.stale import stop_often
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place, every_shared_place

pytestmark = [pytest.mark.faults, pytest.mark.crash]

SQLITE = PLACES["sqlite"]


@every_shared_place
@pytest.mark.parametrize("heartbeat", [False, True], ids=["taken", "held"])
def test_a_stopped_holder_wakes_up_as_nobody(
    heartbeat: bool, place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    kind = "held with a heartbeat" if heartbeat else "taken"
    with (
        scoreboard.line(f"SIGSTOP past the lease, {kind}", place.name, seed) as line,
        quick_disk(tmp_path) as folder,
    ):
        rounds = scale(10, 400)
        tally = stop_often(place.at(folder), rounds=rounds, seed=seed, heartbeat=heartbeat)
        line.n, line.violations = tally.rounds, tally.violations
        line.note = f"{tally.stale:,} stale writes"
        print(f"{tally.blocked} times locked out, {tally.by_itself} commits refused too early")


def test_control_a_store_that_ignores_the_fence_is_found_out(
    tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("SIGSTOP, IgnoresFence", SQLITE.name, seed, control=True) as line,
        quick_disk(tmp_path) as folder,
    ):
        tally = stop_often(
            SQLITE.at(folder), rounds=1, seed=seed, heartbeat=False, change=IgnoresFence
        )
        line.n, line.violations = tally.rounds, tally.violations
        found = " ".join(tally.violations)
        assert "came after its successor's" in found
        assert "stale append" in found
        assert "nobody refused it" in found
