"""kill -9 at random moments (--kills many), and the proof that the checker would notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from ledgerstone.backends.file import open_file
from ledgerstone.backends.sqlite import open_sqlite
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults import victims
from ledgerstone.testing.faults.commits import commit_of
from ledgerstone.testing.faults.histories import Found, read_back
from ledgerstone.testing.faults.kills import TENANT, Killed, kill_often
from ledgerstone.testing.faults.processes import Child
from ledgerstone.testing.faults.sabotage import AcknowledgesEarly, CommitsInHalves
from ledgerstone.testing.scoreboard import Line, Scoreboard
from tests.backends.places import quick_disk
from tests.crash.plays import be_born, checkpoint_often

pytestmark = [pytest.mark.crash, pytest.mark.faults]

OPENERS: dict[str, Callable[..., Backend]] = {"sqlite": open_sqlite, "file": open_file}
SHARE = {"lone": 0.5, "threaded": 0.25, "tasks": 0.25}
CONTROL_KILLS_MAX = 40
NEWBORN_S = 0.02


def report(result: Killed, line: Line) -> Killed:
    print(result)
    line.n, line.violations = result.kills, result.verdict.violations
    line.note = f"{result.verdict.acked:,} turns acknowledged"
    return result


@pytest.mark.parametrize("backend", OPENERS)
@pytest.mark.parametrize("name", SHARE)
def test_nothing_acknowledged_is_lost_and_no_turn_is_half(
    name: str, backend: str, tmp_path: Path, seed: int, kills: int, scoreboard: Scoreboard
) -> None:
    """One place for all children of a series: each goes on where the one before was killed.

    One series has a real disk. The others have a quick one, where many more commits are under
    way when the kill comes: what a killed process wrote is in the page cache either way.
    """
    count = max(1, round(kills * SHARE[name]))
    with (
        scoreboard.line(f"kill -9 at random moments, {name} writer", backend, seed) as line,
        nullcontext(tmp_path) if name == "lone" else quick_disk(tmp_path) as folder,
    ):
        make = partial(OPENERS[backend], str(folder / "store.db"))
        result = report(kill_often(make, getattr(victims, name), kills=count, seed=seed), line)
        assert result.kills == count
        assert result.verdict.acked >= count


def test_kills_while_the_log_is_moved(
    tmp_path: Path, seed: int, kills: int, scoreboard: Scoreboard
) -> None:
    """Every few commits the log goes into the file, so that many kills hit a checkpoint."""
    make = partial(open_sqlite, str(tmp_path / "store.db"))
    count = max(1, kills // 10)
    with scoreboard.line("kill -9 while the log is moved", "sqlite", seed) as line:
        report(
            kill_often(make, victims.lone, kills=count, seed=seed, change=checkpoint_often), line
        )


def test_kills_of_newborn_stores(
    tmp_path: Path, seed: int, kills: int, scoreboard: Scoreboard
) -> None:
    """Killed while the file is made: the next one opens it, and what was acknowledged is there."""
    random = Random(seed)
    with scoreboard.line("kill -9 while the file is made", "sqlite", seed) as line:
        for line.n in range(1, max(1, kills // 5) + 1):
            path = str(tmp_path / f"{line.n}.db")
            child = Child(be_born, path)
            assert next(child.hear(60.0)) == b"opening"
            acked = len(list(child.hear(random.uniform(0, NEWBORN_S)))) + len(child.kill())
            with closing(open_sqlite(path)) as backend:
                line.violations += newborn_trouble(read_back(backend, TENANT, "first"), acked)
                backend.write(commit_of("first", "after", "x"))


def newborn_trouble(found: Found, acked: int) -> Iterator[str]:
    """What is wrong with a file whose maker was killed."""
    if found.revision < acked:
        yield f"{acked} turns were acknowledged, {found.revision} are there"
    if len(found.nodes) != 2 * found.revision:
        yield f"{len(found.nodes)} nodes in {found.revision} turns of two"
    yield from (f"{defect.kind} {defect.where}" for defect in found.defects)


@pytest.mark.parametrize("backend", OPENERS)
def test_control_an_answer_before_the_commit_is_found_out(
    backend: str, tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    make = partial(OPENERS[backend], str(tmp_path / "store.db"))
    with scoreboard.line("kills, answer before the commit", backend, seed, control=True) as line:
        killed = kill_often(
            make,
            victims.lone,
            kills=CONTROL_KILLS_MAX,
            seed=seed,
            change=AcknowledgesEarly,
            enough=lambda verdict: bool(verdict.lost),
        )
        assert report(killed, line).verdict.lost


def test_control_a_turn_in_two_transactions_is_found_out(
    tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    make = partial(open_sqlite, str(tmp_path / "store.db"))
    with scoreboard.line("kills, turn in two transactions", "sqlite", seed, control=True) as line:
        killed = kill_often(
            make,
            victims.lone,
            kills=CONTROL_KILLS_MAX,
            seed=seed,
            change=CommitsInHalves,
            enough=lambda verdict: bool(verdict.half),
        )
        assert report(killed, line).verdict.half


def test_control_a_lost_turn_of_a_newborn_store_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("kills of newborn files, a turn is gone", "sqlite", control=True) as line,
        closing(open_sqlite(str(tmp_path / "store.db"))) as backend,
    ):
        backend.write(commit_of("first", "t0", "hello", "again"))
        whole = read_back(backend, TENANT, "first")
        assert list(newborn_trouble(whole, 1)) == []
        for lie in (newborn_trouble(whole, 2), newborn_trouble(replace(whole, nodes=["t0.0"]), 1)):
            line.n += 1
            line.violations += list(lie)
        assert len(line.violations) == line.n
