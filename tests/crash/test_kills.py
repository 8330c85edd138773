"""kill -9 at random moments (--kills many), and the proof that the checker would notice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.testing.faults import victims
from ledgerstone.testing.faults.commits import commit_of
from ledgerstone.testing.faults.histories import Found, read_back
from ledgerstone.testing.faults.kills import TENANT, Killed, Make, kill_often
from ledgerstone.testing.faults.processes import Child
from ledgerstone.testing.faults.sabotage import AcknowledgesEarly, CommitsInHalves
from ledgerstone.testing.scoreboard import Line, Scoreboard
from tests.backends.places import quick_disk
from tests.crash.plays import be_born, checkpoint_often
from tests.faults.places import PLACES
from tests.postgres_beds import open_store, places

pytestmark = [pytest.mark.crash, pytest.mark.faults]

BACKENDS = ("sqlite", "file", "postgres")
SHARE = {"lone": 0.5, "threaded": 0.25, "tasks": 0.25}
# A dead client of a server takes nothing with it but its connections.
FEWER = {"postgres": 0.3}
CONTROL_KILLS_MAX = 40


def report(result: Killed, line: Line) -> Killed:
    print(result)
    line.n, line.violations = result.kills, result.verdict.violations
    line.note = f"{result.verdict.acked:,} turns acknowledged"
    return result


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SHARE)
def test_nothing_acknowledged_is_lost_and_no_turn_is_half(
    name: str, backend: str, tmp_path: Path, seed: int, kills: int, scoreboard: Scoreboard
) -> None:
    """One place for all children of a series: each goes on where the one before was killed.

    One series has a real disk. The others have a quick one, where many more commits are under
    way when the kill comes: what a killed process wrote is in the page cache either way.
    """
    count = max(1, round(kills * SHARE[name] * FEWER.get(backend, 1)))
    with (
        scoreboard.line(f"kill -9 at random moments, {name} writer", backend, seed) as line,
        nullcontext(tmp_path) if name == "lone" else quick_disk(tmp_path) as folder,
    ):
        make = PLACES[backend].at(folder)
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


@contextmanager
def new_file(folder: Path, number: int) -> Iterator[Make]:
    yield partial(open_sqlite, str(folder / f"{number}.db"))


@contextmanager
def new_database(folder: Path, number: int) -> Iterator[Make]:
    """An empty one, so that the schema has to be made."""
    url = places().blank()
    yield partial(open_store, url)
    places().drop(url)


NEWBORN = {"sqlite": (new_file, 0.02), "postgres": (new_database, 0.3)}


@pytest.mark.parametrize("backend", NEWBORN)
def test_kills_of_newborn_stores(
    backend: str, tmp_path: Path, seed: int, kills: int, scoreboard: Scoreboard
) -> None:
    """Killed while the place is made: the next one opens it, and what was acknowledged is there."""
    random, (new, life_s) = Random(seed), NEWBORN[backend]
    with scoreboard.line("kill -9 while the store is made", backend, seed) as line:
        for line.n in range(1, max(1, kills // 5) + 1):
            with new(tmp_path, line.n) as make:
                child = Child(be_born, make)
                assert next(child.hear(60.0)) == b"opening"
                acked = len(list(child.hear(random.uniform(0, life_s)))) + len(child.kill())
                with closing(make()) as opened:
                    line.violations += newborn_trouble(read_back(opened, TENANT, "first"), acked)
                    opened.write(commit_of("first", "after", "x"))


def newborn_trouble(found: Found, acked: int) -> Iterator[str]:
    """What is wrong with a file whose maker was killed."""
    if found.revision < acked:
        yield f"{acked} turns were acknowledged, {found.revision} are there"
    if len(found.nodes) != 2 * found.revision:
        yield f"{len(found.nodes)} nodes in {found.revision} turns of two"
    yield from (f"{defect.kind} {defect.where}" for defect in found.defects)


@pytest.mark.parametrize("backend", BACKENDS)
def test_control_an_answer_before_the_commit_is_found_out(
    backend: str, tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    make = PLACES[backend].at(tmp_path)
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
