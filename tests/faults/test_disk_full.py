"""A disk that is really full, at many moments: a small tmpfs, or a limit on file sizes."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ledgerstone.commands.nodes import ListNodes
from ledgerstone.commands.turns import CommitTurn, ListTurns, VerifySession
from ledgerstone.engines.sqlite.backend import SqliteBackend, open_sqlite
from ledgerstone.errors import LedgerstoneError, StorageFull
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.storage import checkpoints_often, integrity
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from tests.backends.places import small_disk, under_a_limit

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(1800)]

SESSION = "s"
COMMITS_MAX = 5000
AFTER = 5
BALLAST_BYTES = 800_000
"""What is left free as well: an empty store with its log takes 0.6 MB."""
LIMIT_BYTES = (500_000, 2_000_000)


def commits(random: Random) -> list[CommitTurn]:
    sizes = [random.choice((10, 500, 4000, 20_000)) for _ in range(COMMITS_MAX)]
    return [commit_of(SESSION, f"t{n}", "x" * size, "y") for n, size in enumerate(sizes)]


def missing(backend: SqliteBackend, acked: list[CommitTurn]) -> list[str]:
    """Whether exactly the acknowledged turns are there, whole and verified."""
    place: dict[str, Any] = {"tenant": TENANT, "session": SESSION}
    turns, nodes, verified = backend.read(
        [
            ListTurns(limit=2 * COMMITS_MAX, **place),
            ListNodes(limit=9 * COMMITS_MAX, **place),
            VerifySession(**place),
        ]
    )
    found = [f"verify: {one}" for one in verified.defects]
    if [one.turn for one in turns] != [one.turn for one in acked]:
        found.append(f"{len(turns)} turns are there, {len(acked)} were acknowledged")
    if [one.id for one in nodes] != [node.id for one in acked for node in one.nodes]:
        found.append(f"{len(nodes)} nodes are there, not those of {len(acked)} turns")
    return found


def fill_and_free(path: Path, ballast: Path, random: Random) -> list[str]:
    """Write until there is no space, look around, make space, go on: what was wrong on the way."""
    found: list[str] = []
    acked: list[CommitTurn] = []
    refused: list[CommitTurn] = []
    waiting = commits(random)
    with checkpoints_often(random.choice((30, 100, 400))):
        with closing(open_sqlite(str(path))) as backend:
            for n, commit in enumerate(waiting):
                try:
                    backend.write(commit)
                    acked.append(commit)
                except LedgerstoneError as error:
                    refused.append(commit)
                    if not isinstance(error, StorageFull):
                        found.append(f"commit {n} got {error!r}")
                if len(refused) == AFTER:
                    break
            else:
                found.append("the disk never got full")
            found += [f"full: {one}" for one in missing(backend, acked)]
            ballast.unlink()
            for commit in refused:
                backend.write(commit)
                acked.append(commit)
            found += [f"freed: {one}" for one in missing(backend, acked)]
        with closing(open_sqlite(str(path))) as backend:
            found += [f"reopened: {one}" for one in missing(backend, acked)]
            found += integrity(path)
    return found


def test_a_full_disk(tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int) -> None:
    """StorageFull, everything older readable, and the same handle works when there is space."""
    random = Random(seed)
    with (
        scoreboard.line("disk full on a small tmpfs", "sqlite", seed) as line,
        small_disk(tmp_path / "disk", "3m") as disk,
    ):
        if disk is None:
            line.note = "nothing can be mounted here: a limit on file sizes instead"
            limited(tmp_path, line, scale(5, 50), random)
            return
        for _ in range(scale(8, 100)):
            space = os.statvfs(disk)
            most = space.f_bavail * space.f_frsize - BALLAST_BYTES
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(random.randrange(BALLAST_BYTES, most)))
            line.violations += fill_and_free(disk / "store.db", ballast, random)
            line.n += 1
            for path in disk.iterdir():
                path.unlink()


def test_a_limit_on_file_sizes(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int
) -> None:
    """Needs no rights: a typed error, everything acknowledged readable, and it goes on after."""
    with scoreboard.line("files may not grow any more (RLIMIT_FSIZE)", "sqlite", seed) as line:
        limited(tmp_path, line, scale(5, 50), Random(seed))


def limited(folder: Path, line: Line, times: int, random: Random) -> None:
    for n in range(times):
        size = random.randrange(*LIMIT_BYTES)
        tried = under_a_limit(folder / f"limited-{n}.db", size)
        line.n += 1
        # The kernel answers "file too large", which SQLite takes for an I/O error.
        if tried.error not in ("StorageFull", "Unavailable", "OutcomeUnknown"):
            line.violations.append(f"{size} bytes: {tried.error or 'no error'}: {tried.text}")
        if tried.kept != tried.acked or not tried.ok:
            line.violations.append(f"{size} bytes: {tried}")


def test_control_a_lost_turn_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard, seed: int
) -> None:
    """The check of the tests above, on a store that lacks the last of its turns."""
    acked = commits(Random(seed))[:10]
    with (
        scoreboard.line("disk full: a turn is missing", "sqlite", seed, control=True) as line,
        closing(open_sqlite(str(tmp_path / "store.db"))) as backend,
    ):
        for commit in acked[:-1]:
            backend.write(commit)
        line.n = len(acked)
        line.violations = missing(backend, acked)
