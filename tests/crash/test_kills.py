"""kill -9 at random moments (--kills many), and the proof that the checker would notice."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from ledgerstone.backends.sqlite import open_sqlite
from ledgerstone.testing.faults import victims
from ledgerstone.testing.faults.kills import Killed, kill_often
from ledgerstone.testing.faults.sabotage import AcknowledgesEarly, CommitsInHalves

pytestmark = pytest.mark.crash

SHARE = {"lone": 0.5, "threaded": 0.25, "tasks": 0.25}
CONTROL_KILLS_MAX = 40


def report(result: Killed) -> Killed:
    print(result)
    return result


@pytest.mark.parametrize("name", SHARE)
def test_nothing_acknowledged_is_lost_and_no_turn_is_half(
    name: str, tmp_path: Path, seed: int, kills: int
) -> None:
    """One file for all children of a series: each goes on where the one before was killed."""
    make = partial(open_sqlite, str(tmp_path / "store.db"))
    count = max(1, round(kills * SHARE[name]))
    result = report(kill_often(make, getattr(victims, name), kills=count, seed=seed))
    assert result.verdict.violations == []
    assert result.kills == count
    assert result.verdict.acked >= count


def test_control_an_answer_before_the_commit_is_found_out(tmp_path: Path, seed: int) -> None:
    make = partial(open_sqlite, str(tmp_path / "store.db"))
    result = report(
        kill_often(
            make,
            victims.lone,
            kills=CONTROL_KILLS_MAX,
            seed=seed,
            lie=AcknowledgesEarly,
            enough=lambda verdict: bool(verdict.lost),
        )
    )
    assert result.verdict.lost


def test_control_a_turn_in_two_transactions_is_found_out(tmp_path: Path, seed: int) -> None:
    make = partial(open_sqlite, str(tmp_path / "store.db"))
    result = report(
        kill_often(
            make,
            victims.lone,
            kills=CONTROL_KILLS_MAX,
            seed=seed,
            lie=CommitsInHalves,
            enough=lambda verdict: bool(verdict.half),
        )
    )
    assert result.verdict.half
