"""A store in a directory on a disk that fails: errors, full disks, lost flushes, power cuts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TypeVar

import pytest

from ledgerstone.commands import Command
from ledgerstone.engines.file.engine import FileEngine
from ledgerstone.errors import Unavailable
from ledgerstone.testing.faults.disk import How, Kind
from ledgerstone.testing.faults.flushes import lose_a_flush, unflushed
from ledgerstone.testing.faults.folder_stage import FolderStage
from ledgerstone.testing.faults.storage import Tally, cut_everywhere, fail_everywhere, lived
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.backends.places import quick_disk
from tests.faults.points import points, some

A = TypeVar("A")

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(1800)]

# Kind, how it fails, and every which one is tried in a small run.
FAULTS: list[tuple[Kind, How, int]] = [
    ("write", "error", 5),
    ("write", "torn", 5),
    ("write", "full", 5),
    ("write", "short", 5),
    ("sync", "error", 5),
    ("truncate", "error", 1),
    ("open", "error", 3),
    ("open", "full", 3),
    ("delete", "error", 1),
    ("rename", "error", 2),
    ("folder", "error", 3),
]
NAMES = [f"{kind}-{how}" for kind, how, _ in FAULTS]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as quick:
        yield quick


def lost(tally: Tally) -> list[str]:
    return [one for one in tally.violations if " lost: " in one or " differs: " in one]


@pytest.mark.parametrize(("kind", "how", "stride"), FAULTS, ids=NAMES)
def test_an_operation_fails(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int, kind: Kind, how: How, stride: int
) -> None:
    """What was acknowledged is there, what failed is not, the error has a type, and it goes on."""
    with scoreboard.line(f"{kind} fails at the n-th operation ({how})", "file", seed) as line:
        for born in (True, False):
            stage = FolderStage(folder, born=born)
            where = points(scale, seed, stride)
            tally = fail_everywhere(stage, kind, how, points=where, then_cut=Random(seed))
            line.n += tally.points
            line.violations += tally.violations
        if kind == "truncate":
            # Only a line that failed half way is cut off, so nothing is, where nothing failed.
            line.n = line.n or 1


def test_control_an_error_that_is_swallowed_is_found_out(
    folder: Path, scoreboard: Scoreboard, seed: int
) -> None:
    class SaysYes(Wrapper):
        def write(self, command: Command[A]) -> A:
            try:
                return self.inner.write(command)
            except Unavailable:
                return None  # type: ignore[return-value]

    stage = FolderStage(folder, change=SaysYes)
    with scoreboard.line("a failed write is answered as done", "file", seed, control=True) as line:
        tally = fail_everywhere(stage, "write", "full", points=range(3, 10_000, 7))
        line.n = tally.points
        line.violations = [one for one in tally.violations if "differs" in one]


@pytest.mark.parametrize("born", [True, False], ids=["a store", "a store that is being made"])
def test_nothing_acknowledged_is_lost(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int, born: bool
) -> None:
    stage = FolderStage(folder, born=born)
    name = "power cut at the n-th operation" if born else "power cut while a store is made"
    with scoreboard.line(name, "file", seed) as line:
        places = some(stage, seed, scale(40, 480))
        tally = cut_everywhere(stage, Random(seed), seeds=scale(3, 20), points=places)
        line.n, line.violations = tally.images, tally.violations
        line.note = f"{tally.points} points, {tally.acked} acknowledgements"


@pytest.mark.parametrize("lie", ["durability process", "flushes that do nothing"])
def test_control_turns_that_are_not_flushed_are_missed(
    folder: Path, scoreboard: Scoreboard, seed: int, lie: str
) -> None:
    lying = lie != "durability process"
    stage = FolderStage(folder, durability="power" if lying else "process")
    with scoreboard.line(f"power cut: {lie}", "file", seed, control=True) as line:
        tally = cut_everywhere(
            stage,
            Random(seed),
            seeds=3,
            points=some(stage, seed, 30),
            lying=lying,
            enough=lambda so_far: bool(lost(so_far)),
        )
        # Most of them cannot even be opened: what they had acknowledged is gone as well.
        line.n, line.violations = tally.images, tally.violations


def test_a_flush_fails_once(folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int) -> None:
    """Nothing that is sent after it is acknowledged, and what was acknowledged before survives."""
    with scoreboard.line("fsync fails once: poison", "file", seed) as line:
        tally = lose_a_flush(
            FolderStage(folder), Random(seed), seeds=scale(2, 10), points=points(scale, seed, 3)
        )
        line.n, line.violations = tally.points, tally.violations
        line.note = f"{tally.unknown} outcomes unknown, {tally.failed} commands refused after"


def test_control_a_writer_that_goes_on_after_a_lost_flush_is_found_out(
    folder: Path, scoreboard: Scoreboard, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileEngine, "_refuse_more", lambda *arguments: None)
    with scoreboard.line("writing on after a lost flush", "file", seed, control=True) as line:
        tally = lose_a_flush(FolderStage(folder), Random(seed), seeds=2, points=range(2, 60, 9))
        line.n, line.violations = tally.points, tally.violations


def test_each_answer_waits_for_its_flush(folder: Path, scoreboard: Scoreboard) -> None:
    with scoreboard.line("fsync before each acknowledgement, by the file layer", "file") as line:
        stage = FolderStage(folder)
        with lived(stage, stage.make_disk()) as life:
            audit = unflushed(life.disk.log, stage.vital)
        line.n, line.violations = audit.acked, audit.early
        line.note = f"{audit.flushes} flushes"


def test_control_durability_process_does_not_wait(folder: Path, scoreboard: Scoreboard) -> None:
    with scoreboard.line(
        "acknowledgements without fsync at durability process", "file", control=True
    ) as line:
        stage = FolderStage(folder, durability="process")
        with lived(stage, stage.make_disk()) as life:
            audit = unflushed(life.disk.log, stage.vital)
        line.n, line.violations = audit.acked, audit.early
