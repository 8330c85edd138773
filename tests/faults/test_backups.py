"""Online copies of the SQLite file under load: each is a prefix of what was acknowledged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import apsw
import pytest

from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.testing.faults import victims
from ledgerstone.testing.faults.backups import copy_often
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk

pytestmark = [pytest.mark.faults, pytest.mark.crash]

STEP_PAGES = 100
STEPS_MAX = 200
BUSY_MS = 30_000


def connected(path: str) -> apsw.Connection:
    """A connection of somebody who makes a copy: it leaves the log where it is."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(BUSY_MS)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return connection


def by_backup(source: str, target: str) -> None:
    """The backup API, all pages in one step: one snapshot."""
    _backup(source, target, steps=0)


def by_steps(source: str, target: str) -> None:
    """The backup API, some pages at a time: SQLite starts over when somebody wrote in between."""
    _backup(source, target, steps=STEPS_MAX)


def _backup(source: str, target: str, steps: int) -> None:
    theirs, ours = connected(source), apsw.Connection(target)
    with ours.backup("main", theirs, "main") as backup:
        for _ in range(steps):
            backup.step(STEP_PAGES)
            if backup.done:
                break
        else:
            backup.step(-1)
    ours.close()
    theirs.close()


def by_vacuum(source: str, target: str) -> None:
    connection = connected(source)
    connection.execute("VACUUM INTO ?", (target,))
    connection.close()


def by_copying_one_file(source: str, target: str) -> None:
    """What a careless script does: the file without its log."""
    shutil.copy(source, target)


COPIES: dict[str, Callable[[str, str], None]] = {
    "backup API": by_backup,
    "backup API in steps": by_steps,
    "VACUUM INTO": by_vacuum,
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("writer", ["lone", "threaded"])
def test_a_copy_under_load_is_a_prefix(
    writer: str, way: str, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line(f"{way} under load, {writer} writer", "sqlite", seed) as line,
        quick_disk(tmp_path) as folder,
    ):
        source = str(folder / "store.db")
        result = copy_often(
            partial(open_sqlite, source),
            getattr(victims, writer),
            partial(COPIES[way], source),
            open_sqlite,
            [str(folder / f"copy-{n}.db") for n in range(scale(3, 20))],
            seed=seed,
        )
        line.n, line.violations = result.copies, result.violations
        line.note = f"{result.acked:,} turns acknowledged before, {result.turns:,} in the copies"
        assert result.turns >= result.acked > 0


def test_control_a_copy_without_the_log_is_found_out(
    tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("copy of the file without its log", "sqlite", seed, control=True) as line,
        quick_disk(tmp_path) as folder,
    ):
        source = str(folder / "store.db")
        result = copy_often(
            partial(open_sqlite, source),
            victims.lone,
            partial(by_copying_one_file, source),
            partial(open_sqlite, accept_loss=True),
            [str(folder / "copy.db")],
            seed=seed,
        )
        line.n, line.violations = result.copies, result.violations
        signs = ("was acknowledged and is not there", "is damaged")
        assert any(sign in text for text in result.violations for sign in signs)
