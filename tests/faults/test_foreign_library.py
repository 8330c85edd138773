"""apsw and the standard library's sqlite3 on one file in one process: nothing acknowledged is lost.

The two libraries do not know of each other, and POSIX locks belong to the process: the one that
closes finds nobody else, moves the log into the file and deletes it, under the feet of a store
that goes on writing into it. Such a store has to notice, and to answer nothing more.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import Corrupt, OutcomeUnknown, Unavailable
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.histories import read_back
from ledgerstone.testing.faults.processes import Child, Say
from ledgerstone.testing.scoreboard import Scoreboard
from tests.backends.places import quick_disk

pytestmark = [pytest.mark.faults, pytest.mark.crash]

TURNS = 20
WAIT_S = 60.0


def share(say: Say, path: str, gate: str) -> None:
    """Write, let the other library look into the file, and write again; says what is answered."""
    backend = open_sqlite(path)
    for n in range(TURNS):
        backend.write(commit_of("s", f"before {n}", "x" * 300))
        say(f"before {n}".encode())
    foreign = sqlite3.connect(path)
    foreign.execute("SELECT count(*) FROM sessions").fetchall()
    foreign.close()
    say(b"touched")
    _wait_at(gate)
    for n in range(TURNS):
        try:
            backend.write(commit_of("s", f"after {n}", "x" * 300))
        except (OutcomeUnknown, Unavailable, Corrupt):
            continue
        say(f"after {n}".encode())
    say(b"written")
    _wait_at(gate)
    backend.close()
    say(b"closed")


def visit(say: Say, path: str) -> None:
    """Another process that writes a little and closes the store, as the last one it thinks."""
    with closing(open_sqlite(path)) as backend:
        for n in range(TURNS):
            backend.write(commit_of("s", f"neighbour {n}", "y" * 300))
            say(f"neighbour {n}".encode())


def _wait_at(gate: str) -> None:
    with open(gate, "rb") as opened:  # noqa: PTH123
        opened.read()


def _open(gate: str) -> None:
    with open(gate, "wb"):  # noqa: PTH123
        pass


def heard(child: Child, end: bytes | None = None) -> list[str]:
    """What the child had answered for until it said the last word, or ended."""
    said = []
    for data in child.hear(WAIT_S):
        if data == end:
            break
        said.append(data.decode())
    return said


def visited(path: str) -> list[str]:
    child = Child(visit, path)
    try:
        return heard(child)
    finally:
        child.kill()


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("first", [False, True], ids=["visited-last", "visited-first"])
def test_a_log_that_another_library_took_away_is_noticed(
    first: bool, killed: bool, tmp_path: Path, scoreboard: Scoreboard
) -> None:
    title = f"sqlite3 beside apsw, {'killed' if killed else 'closed'}, neighbour "
    with (
        scoreboard.line(title + ("first" if first else "last"), "sqlite") as line,
        quick_disk(tmp_path) as folder,
    ):
        path, gate = str(folder / "store.db"), str(folder / "gate")
        os.mkfifo(gate)
        child = Child(share, path, gate)
        try:
            acked = heard(child, b"touched")
            acked += visited(path) if first else []
            _open(gate)
            acked += heard(child, b"written")
            acked += [] if first else visited(path)
            if not killed:
                _open(gate)
                heard(child, b"closed")
        finally:
            child.kill()
        with closing(open_sqlite(path)) as backend:
            found = read_back(backend, TENANT, "s")
        names = {turn.turn for turn in found.turns}
        line.n = len(acked)
        line.violations += [
            f"{name} was acknowledged and is gone" for name in acked if name not in names
        ]
        line.violations += [f"{one.kind} {one.where}" for one in found.defects]
