"""Whatever other programs do beside a store and its copies: see file_lives.py."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from ledgerstone.engines.sqlite import entry as sqlite_entry
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.file_lives import Life

pytestmark = [pytest.mark.faults, pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(1800)]

CONTROL_LIVES = 60


@pytest.mark.promise(221, 222)
def test_no_life_of_a_file_is_refused_or_mixed_up(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    with scoreboard.line("lives beside other SQLite programs", "sqlite", seed) as line:
        tally = live(line, tmp_path, seed, scale(25, 500))
        line.note = ", ".join(f"{name} {number}" for name, number in sorted(tally.items()))
        assert tally["refused"] > 0
        assert tally["as the copy"] > 0


def test_control_a_store_that_takes_any_log_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_entry, "find_log_mismatch", lambda mark, log: None)
    with scoreboard.line("lives, any log is taken", "sqlite", seed, control=True) as line:
        live(line, tmp_path, seed, CONTROL_LIVES)


def live(line: Line, tmp_path: Path, seed: int, lives: int) -> Counter[str]:
    """One life after the other, until one is wrong."""
    tally: Counter[str] = Counter()
    with quick_disk(tmp_path) as folder:
        for one in range(seed, seed + lives):
            line.n += 1
            found = list(Life(folder / f"{one}", one, tally).run())
            line.violations += [f"life {one}: {text}" for text in found]
            shutil.rmtree(folder / f"{one}")
            if found:
                break
    return tally
