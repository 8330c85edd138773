"""Flushes: one before each answer, and none of them may fail unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from ledgerstone.commands import Command
from ledgerstone.commands.turns import ListTurns
from ledgerstone.engines.sqlite.backend import SqliteBackend, open_sqlite
from ledgerstone.errors import OutcomeUnknown, Unavailable
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.disk import Disk, Fault
from ledgerstone.testing.faults.flushes import (
    as_log,
    can_trace,
    lose_a_flush,
    traced,
    unflushed,
    unnamed,
)
from ledgerstone.testing.faults.storage import Stage, lived
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.backends.places import quick_disk
from tests.faults.points import points

A = TypeVar("A")

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(1800)]

COMMITS = 12
LATER = 5
NO_STRACE = "no strace here: counted by the file layer alone"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as quick:
        yield quick


# --- a flush that fails


def test_a_flush_fails_once(folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int) -> None:
    """Nothing that is sent after it is acknowledged, and what was acknowledged before survives."""
    with scoreboard.line("fsync fails once: poison", "sqlite", seed) as line:
        tally = lose_a_flush(
            Stage(folder), Random(seed), seeds=scale(2, 10), points=points(scale, seed, 3)
        )
        line.n, line.violations = tally.points, tally.violations
        line.note = f"{tally.unknown} outcomes unknown, {tally.failed} commands refused after"


class IgnoresPoison(Wrapper):
    """Goes on after a failed flush as if nothing had been."""

    def write(self, command: Command[A]) -> A:
        assert isinstance(self.inner, SqliteBackend)
        self.inner._writer._poison = None
        return self.inner.write(command)


def test_control_a_writer_that_goes_on_is_found_out(
    folder: Path, scoreboard: Scoreboard, seed: int
) -> None:
    stage = Stage(folder, change=IgnoresPoison)
    with scoreboard.line("writing on after a failed fsync", "sqlite", seed, control=True) as line:
        tally = lose_a_flush(stage, Random(seed), seeds=1, points=range(3, 30, 9))
        line.n = tally.points
        line.violations = [one for one in tally.violations if "poison" in one]


def test_a_commit_whose_flush_failed_is_repeated_once(
    folder: Path, scoreboard: Scoreboard, seed: int
) -> None:
    """OutcomeUnknown; the handle is done for; after reopening the same turn is there once."""
    with scoreboard.line("commit with a failed fsync, repeated", "sqlite", seed) as line:
        for at in range(1, COMMITS):
            line.violations += [f"flush {at}: {one}" for one in repeated(folder / f"{at}", at)]
            line.n += 1


def repeated(folder: Path, at: int) -> list[str]:
    """Fail the flush of the at-th commit, then repeat that commit through a new handle."""
    folder.mkdir()
    path = str(folder / "store.db")
    open_sqlite(path).close()
    first = Disk()
    with closing(open_sqlite(path, vfs=first.name)):
        opening = first.counts["sync"]
    disk = Disk(Fault("sync", opening + at, "once"))
    disk.watch(folder)
    commits = [commit_of("s", f"t{n}", "one", "two") for n in range(1, COMMITS + LATER)]
    found, acked = [], []
    with closing(open_sqlite(path, vfs=disk.name)) as backend:
        for n, commit in enumerate(commits, 1):
            answer = outcome(backend, commit)
            wanted: type[Any] | None = None
            if n >= at:
                wanted = OutcomeUnknown if n == at else Unavailable
            if type(answer) is not wanted and (wanted or isinstance(answer, Exception)):
                found.append(f"commit {n} got {answer!r}")
            if not isinstance(answer, Exception):
                acked.append(commit.turn)
    with closing(open_sqlite(path)) as backend:
        backend.write(commits[at - 1])
        backend.write(commits[at - 1])
        turns = [one.turn for one in backend.read([ListTurns(tenant=TENANT, session="s")])[0]]
    if turns != [*acked, commits[at - 1].turn]:
        found.append(f"{turns} are there, {acked} were acknowledged")
    return found


def outcome(backend: SqliteBackend, command: Command[Any]) -> Any:
    try:
        return backend.write(command)
    except Exception as error:
        return error


# --- the audit


def test_each_answer_waits_for_its_flush(folder: Path, scoreboard: Scoreboard, seed: int) -> None:
    with scoreboard.line("fsync before each acknowledgement, by the file layer", "sqlite") as line:
        with lived(Stage(folder), Disk()) as life:
            audit = unflushed(life.disk.log)
        line.n, line.violations = audit.acked, audit.early
        line.note = f"{audit.flushes} flushes"


def test_control_durability_process_does_not_wait(folder: Path, scoreboard: Scoreboard) -> None:
    with scoreboard.line(
        "acknowledgements without fsync at durability process", "sqlite", control=True
    ) as line:
        with lived(Stage(folder, durability="process"), Disk()) as life:
            audit = unflushed(life.disk.log)
        line.n, line.violations = audit.acked, audit.early


def test_each_answer_waits_as_strace_sees_it(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    """A real process on a real file, with its checkpoints as they come."""
    commits = scale(50, 1000)
    with scoreboard.line("fsync before each acknowledgement, by strace", "sqlite") as line:
        if can_trace():
            audit = unflushed(as_log(traced(tmp_path, commits, "power")))
            assert audit.acked == commits
            assert audit.flushes >= commits
        else:
            line.note = NO_STRACE
            with lived(Stage(tmp_path), Disk()) as life:
                audit = unflushed(life.disk.log)
        line.n, line.violations = audit.acked, audit.early


def test_control_strace_sees_durability_process(tmp_path: Path, scoreboard: Scoreboard) -> None:
    with scoreboard.line(
        "acknowledgements without fsync, by strace", "sqlite", control=True
    ) as line:
        if can_trace():
            audit = unflushed(as_log(traced(tmp_path, 20, "process")))
            assert audit.acked == 20
        else:
            line.note = NO_STRACE
            with lived(Stage(tmp_path, durability="process"), Disk()) as life:
                audit = unflushed(life.disk.log)
        line.n, line.violations = audit.acked, audit.early


def test_new_folders_are_flushed_too(tmp_path: Path, scoreboard: Scoreboard) -> None:
    """A store is no more durable than the name of the folder it was put in."""
    if not can_trace():
        print(f"capability strace: no; {NO_STRACE}")
        return
    with scoreboard.line(
        "folders made for a store are flushed before its first answer", "sqlite"
    ) as line:
        audit = unnamed(traced(tmp_path, 1, "power"))
        line.n, line.violations = audit.acked, audit.early


def test_control_a_folder_that_is_not_flushed_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    """The same trace without the flushes of the folders above."""
    if not can_trace():
        print(f"capability strace: no; {NO_STRACE}")
        return
    with scoreboard.line("a folder that is not flushed", "sqlite", control=True) as line:
        trace = traced(tmp_path, 1, "power").splitlines()
        kept = [one for one in trace if f"<{tmp_path}" not in one or "store.db" in one]
        audit = unnamed("\n".join(kept))
        line.n, line.violations = audit.acked, audit.early
