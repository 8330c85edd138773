"""kill -9 at random moments (--kills many), and the proof that the checker would notice."""

from __future__ import annotations

from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from random import Random

import pytest

from ledgerstone.backends.sqlite import open_sqlite
from ledgerstone.testing.faults import victims
from ledgerstone.testing.faults.histories import read_back
from ledgerstone.testing.faults.kills import TENANT, Killed, kill_often
from ledgerstone.testing.faults.processes import Child
from ledgerstone.testing.faults.sabotage import AcknowledgesEarly, CommitsInHalves
from tests.backends.places import quick_disk
from tests.crash.plays import be_born, checkpoint_often, commit_of

pytestmark = pytest.mark.crash

SHARE = {"lone": 0.5, "threaded": 0.25, "tasks": 0.25}
CONTROL_KILLS_MAX = 40
NEWBORN_S = 0.02


def report(result: Killed) -> Killed:
    print(result)
    return result


@pytest.mark.parametrize("name", SHARE)
def test_nothing_acknowledged_is_lost_and_no_turn_is_half(
    name: str, tmp_path: Path, seed: int, kills: int
) -> None:
    """One file for all children of a series: each goes on where the one before was killed.

    One series has a real disk. The others have a quick one, where many more commits are under
    way when the kill comes: what a killed process wrote is in the page cache either way.
    """
    count = max(1, round(kills * SHARE[name]))
    with nullcontext(tmp_path) if name == "lone" else quick_disk(tmp_path) as folder:
        make = partial(open_sqlite, str(folder / "store.db"))
        result = report(kill_often(make, getattr(victims, name), kills=count, seed=seed))
    assert result.verdict.violations == []
    assert result.kills == count
    assert result.verdict.acked >= count


def test_kills_while_the_log_is_moved(tmp_path: Path, seed: int, kills: int) -> None:
    """Every few commits the log goes into the file, so that many kills hit a checkpoint."""
    make = partial(open_sqlite, str(tmp_path / "store.db"))
    count = max(1, kills // 10)
    result = report(kill_often(make, victims.lone, kills=count, seed=seed, change=checkpoint_often))
    assert result.verdict.violations == []


def test_kills_of_newborn_stores(tmp_path: Path, seed: int, kills: int) -> None:
    """Killed while the file is made: the next one opens it, and what was acknowledged is there."""
    print(f"seed {seed}")
    random = Random(seed)
    for n in range(max(1, kills // 5)):
        path = str(tmp_path / f"{n}.db")
        child = Child(be_born, path)
        assert next(child.hear(60.0)) == b"opening"
        acked = len(list(child.hear(random.uniform(0, NEWBORN_S)))) + len(child.kill())
        with closing(open_sqlite(path)) as backend:
            found = read_back(backend, TENANT, "first")
            assert found.revision >= acked
            assert (len(found.nodes), found.defects) == (2 * found.revision, [])
            backend.write(commit_of("first", "after", "x"))


def test_control_an_answer_before_the_commit_is_found_out(tmp_path: Path, seed: int) -> None:
    make = partial(open_sqlite, str(tmp_path / "store.db"))
    result = report(
        kill_often(
            make,
            victims.lone,
            kills=CONTROL_KILLS_MAX,
            seed=seed,
            change=AcknowledgesEarly,
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
            change=CommitsInHalves,
            enough=lambda verdict: bool(verdict.half),
        )
    )
    assert result.verdict.half
