"""I/O errors, full disks and short writes at the n-th operation of a kind, for every n."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import apsw
import pytest

from ledgerstone.commands import Command
from ledgerstone.engines.sqlite import connection as sqlite_connection
from ledgerstone.errors import Unavailable
from ledgerstone.testing.faults.disk import How, Kind
from ledgerstone.testing.faults.storage import Stage, Tally, fail_everywhere
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.backends.places import quick_disk
from tests.faults.points import FAR, points

A = TypeVar("A")

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(1800)]

# Kind, how it fails, and every which one is tried in a small run.
FAULTS: list[tuple[Kind, How, int]] = [
    ("read", "error", 23),
    ("write", "error", 41),
    ("write", "torn", 41),
    ("write", "full", 41),
    ("write", "short", 41),
    ("sync", "error", 4),
    ("truncate", "error", 1),
    ("truncate", "full", 1),
    ("open", "error", 1),
    ("delete", "error", 1),
]
NEWBORN = 12
CONTROL_ROUNDS = 10
NAMES = [f"{kind}-{how}" for kind, how, _ in FAULTS]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as quick:
        yield quick


def shown(tally: Tally) -> str:
    errors = ", ".join(f"{number} {name}" for name, number in sorted(tally.errors.items()))
    return f"{tally.acked} acknowledged; {errors}"


@pytest.mark.parametrize(("kind", "how", "stride"), FAULTS, ids=NAMES)
def test_an_operation_fails(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int, kind: Kind, how: How, stride: int
) -> None:
    """What was acknowledged is there, what failed is not, the error has a type, and it goes on."""
    with scoreboard.line(f"{kind} fails at the n-th operation ({how})", "sqlite", seed) as line:
        tally = fail_everywhere(Stage(folder), kind, how, points=points(scale, seed, stride))
        print(shown(tally))
        line.n, line.violations = tally.points, tally.violations


@pytest.mark.parametrize(("kind", "how", "stride"), FAULTS, ids=NAMES)
def test_an_error_while_a_store_is_made(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int, kind: Kind, how: How, stride: int
) -> None:
    """The first operations of a new file fail; what it acknowledges survives a power cut."""
    stage = Stage(folder, born=False, steps=())
    first = range(1, NEWBORN)
    rest = (at for at in points(scale, seed, stride) if at >= NEWBORN)
    with scoreboard.line(
        f"{kind} fails in a new store ({how}), then a power cut", "sqlite", seed
    ) as line:
        tally = fail_everywhere(stage, kind, how, points=chain(first, rest), then_cut=Random(seed))
        print(shown(tally))
        line.n, line.violations = tally.points, tally.violations


def first_row(connection: apsw.Connection, pragma: str) -> Any:
    """A pragma that is not carried out to its end: its own commit, and its error, are lost."""
    row = connection.execute(pragma).fetchone()
    return None if row is None else row[0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_control_a_new_store_without_its_log_is_found_out(
    folder: Path, scoreboard: Scoreboard, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would say that it writes ahead, and lose its last turn with the power."""
    monkeypatch.setattr(sqlite_connection, "setting", first_row)
    stage = Stage(folder, born=False, steps=())
    with scoreboard.line(
        "a failed switch to the log is passed over", "sqlite", seed, control=True
    ) as line:
        for _ in range(CONTROL_ROUNDS):
            random = Random(seed + line.n)
            tally = fail_everywhere(stage, "sync", "error", points=range(1, 12), then_cut=random)
            line.n += tally.images
            line.violations += [one for one in tally.violations if "differs" in one]
            if line.violations:
                break


class SaysYes(Wrapper):
    """Takes a failed write for done: what a caller would see who swallows errors."""

    def write(self, command: Command[A]) -> A:
        try:
            return self.inner.write(command)
        except Unavailable:
            return None  # type: ignore[return-value]


def test_control_an_error_that_is_swallowed_is_found_out(
    folder: Path, scoreboard: Scoreboard, seed: int
) -> None:
    stage = Stage(folder, change=SaysYes)
    with scoreboard.line(
        "a failed write is answered as done", "sqlite", seed, control=True
    ) as line:
        tally = fail_everywhere(stage, "write", "full", points=range(50, FAR, 200))
        line.n = tally.points
        line.violations = [one for one in tally.violations if "differs" in one]
