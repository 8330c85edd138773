"""A fork after open: a clear error in the child, and no harm to anybody else, ever."""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledgerstone import Store
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.testing.faults.histories import read_back
from ledgerstone.testing.faults.processes import Child, Target
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.crash import families, plays
from tests.faults.places import Place, every_shared_place

pytestmark = [pytest.mark.crash, pytest.mark.faults]

WAIT_S = 60.0


def said(target: Target, *arguments: Any) -> Any:
    """The one thing a family says before it ends."""
    child = Child(target, *arguments)
    try:
        for data in child.hear(WAIT_S):
            return msgspec.json.decode(data)
        raise AssertionError("the family said nothing; a forked child hangs")
    finally:
        child.kill()


@every_shared_place
def test_the_child_of_a_blocking_store_is_told_so(
    place: Place, tmp_path: Path, scoreboard: Scoreboard
) -> None:
    with scoreboard.line("fork after open, blocking", place.name) as line:
        found = said(families.blocking, place.where(tmp_path))
        for name in ("append", "last", "commit", "take", "health", "other tenant"):
            assert found[name].startswith("StoreClosed: this store was opened before a fork"), name
        assert found["close"] == "returned None"
        assert found["own"] == "2"
        assert found["parent"] == str(["before", "own store", "collected before the fork"])
        assert found["verify"] == "True"
        line.n = len(found)


@every_shared_place
def test_the_child_of_an_async_store_is_told_so(
    place: Place, tmp_path: Path, scoreboard: Scoreboard
) -> None:
    with scoreboard.line("fork after open, async", place.name) as line:
        found = said(families.looping, place.where(tmp_path))
        for name in ("append", "last"):
            assert found[name].startswith("StoreClosed: this store was opened before a fork"), name
        assert found["close"] == "returned None"
        assert found["own"] == "2"
        assert found["parent"] == str(["before", "own store", "after"])
        assert found["verify"] == "True"
        line.n = len(found)


@every_shared_place
def test_a_fork_in_the_middle_of_commits_neither_hangs_nor_harms(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    with scoreboard.line("fork in the middle of commits", place.name) as line:
        forks = scale(20, 300)
        answers, acknowledged, kept, verified = said(
            families.while_committing, place.where(tmp_path), forks
        )
        assert len(answers) == forks
        assert all(answer.startswith("StoreClosed") for answer in answers), answers
        assert (kept, verified) == (acknowledged, True)
        line.n = len(answers)


def test_a_child_that_ends_late_does_not_delete_the_log(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    """SQLite deletes the log when a last connection closes; a fork's copy is not a last one.

    The parent closed its store, another process committed and was killed: its turns are in the
    log alone. The forked child ends only now, and Python drops its copy of the connection.
    """
    with scoreboard.line("a forked child that ends late", "sqlite") as line:
        path, gate = str(tmp_path / "store.db"), str(tmp_path / "gate")
        os.mkfifo(gate)
        family = Child(families.late, path, gate)
        try:
            next(family.hear(WAIT_S))
            acknowledged = commit_and_die(path)
            with open(gate, "wb"):  # noqa: PTH123
                pass
            assert next(family.hear(WAIT_S)) == b"over"
        finally:
            family.kill()
        with closing(open_sqlite(path)) as backend:
            found = read_back(backend, "default", "first")
        assert found.revision >= acknowledged > 0
        assert found.defects == []
        line.n = acknowledged


def commit_and_die(path: str) -> int:
    """How many commits another process had answered for when it was killed."""
    child = Child(plays.be_born, partial(open_sqlite, path))
    heard = 0
    try:
        for data in child.hear(WAIT_S):
            heard += data == b"committed"
            if heard == 20:
                break
    finally:
        heard += child.kill().count(b"committed")
    return heard


@every_shared_place
def test_a_forked_store_leaves_no_lock_behind(
    place: Place, tmp_path: Path, scoreboard: Scoreboard
) -> None:
    """After all of this the store opens and takes writes at once."""
    with scoreboard.line("a fork leaves no lock behind", place.name) as line:
        path = place.where(tmp_path)
        said(families.while_committing, path, 20)
        with Store.open(path) as store:
            store.sessions.create(id="after")
            assert store.admin.verify().ok
        line.n = 20


def test_control_a_store_that_forgets_its_process_is_found(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    """Without the look at the process id the child is served, on its parent's connections."""
    with scoreboard.line("fork, the process is not checked", "sqlite", control=True) as line:
        answers = said(families.unchecked, str(tmp_path / "store.db"))
        line.n = len(answers)
        line.violations += [one for one in answers if not one.startswith("StoreClosed")]
