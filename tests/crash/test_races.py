"""Two and eight processes at the same thing in the same moment: one winner, equal answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ledgerstone.backends.sqlite import open_sqlite
from ledgerstone.commands.sessions import ListSessions
from ledgerstone.commands.turns import VerifySession
from ledgerstone.ids import new_id
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.histories import read_back
from ledgerstone.testing.faults.processes import Child
from ledgerstone.testing.faults.races import (
    Outcome,
    Play,
    Race,
    all_won,
    one_commit,
    one_winner,
    rising,
)
from tests.crash import plays

pytestmark = pytest.mark.crash

ROUNDS = {2: 300, 8: 60}
FRESH_FILES = 20
OPENINGS = 100
Check = Callable[[Sequence[Outcome]], Iterator[str]]
Ran = tuple[Backend, list[list[Outcome]]]


@pytest.fixture(params=ROUNDS, ids=lambda n: f"{n}-processes", scope="module")
def race(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[tuple[Race, str]]:
    """The racers stay for all tests of their number: starting them is the slow part."""
    path = str(tmp_path_factory.mktemp("race") / "store.db")
    with Race(partial(open_sqlite, path), request.param) as racers:
        yield racers, path


def run(race: tuple[Race, str], play: Play, check: Check) -> list[list[Outcome]]:
    """Play all rounds, and find the outcomes of every one of them in order."""
    racers, path = race
    rounds = racers.run(play, ROUNDS[racers.racers])
    found = [f"round {n}: {text}" for n, outcomes in enumerate(rounds) for text in check(outcomes)]
    print(f"{len(rounds)} rounds of {racers.racers}, {len(found)} violations")
    assert found == []
    with closing(open_sqlite(path)) as backend:
        assert defects(backend) == []
    return rounds


def defects(backend: Backend) -> list[Any]:
    page = backend.read([ListSessions(tenant=plays.TENANT, order="id", limit=10_000)])[0]
    queries = [VerifySession(tenant=plays.TENANT, session=one.id) for one in page]
    return [defect for one in backend.read(queries) for defect in one.defects]


def winners(rounds: list[list[Outcome]]) -> list[Any]:
    return [one.answer for outcomes in rounds for one in outcomes if one.won]


def test_the_first_lease_of_a_session_has_one_holder(race: tuple[Race, str]) -> None:
    rounds = run(race, plays.first_lease, partial(one_winner, loss=None))
    assert set(winners(rounds)) == {1}


def test_a_lease_that_is_passed_on_has_rising_fences(race: tuple[Race, str]) -> None:
    """Even rounds take, odd rounds give back: one holder in each, and one release."""
    rounds = run(race, plays.next_lease, partial(one_winner, loss=None))
    fences = winners(rounds[0::2])
    assert list(rising(fences)) == []
    assert len(fences) == len(rounds) / 2


def test_one_of_all_that_saw_the_same_revision_commits(race: tuple[Race, str]) -> None:
    rounds = run(race, plays.same_revision, partial(one_winner, loss="RevisionMoved"))
    assert [answer.revision for answer in winners(rounds)] == list(range(1, len(rounds) + 1))


def test_the_same_turn_is_written_once_and_answered_to_all(race: tuple[Race, str]) -> None:
    rounds = run(race, plays.same_turn, one_commit)
    with closing(open_sqlite(race[1])) as backend:
        found = [read_back(backend, plays.TENANT, f"turns-{n}") for n in range(7)]
    assert sum(one.revision for one in found) == len(rounds)
    assert sum(len(one.nodes) for one in found) == 3 * len(rounds)


def test_the_same_turn_with_other_content_is_a_conflict(race: tuple[Race, str]) -> None:
    run(race, plays.other_content, partial(one_winner, loss="TurnConflict"))


def test_one_creates_the_session(race: tuple[Race, str]) -> None:
    run(race, plays.same_session, partial(one_winner, loss="AlreadyExists"))


def test_all_commit_to_a_session_that_each_would_create(race: tuple[Race, str]) -> None:
    """Nobody loses, and everybody has a revision of his own."""
    rounds = run(race, plays.ensured_session, all_won)
    for outcomes in rounds:
        revisions = sorted(one.answer for one in outcomes)
        assert revisions == list(range(1, len(outcomes) + 1))


def test_eight_processes_make_a_fresh_file(tmp_path: Path) -> None:
    """Migration races: nobody fails, nobody migrates twice, everybody's turn is there."""
    play = partial(plays.fresh_file, str(tmp_path))
    with Race(partial(open_sqlite, str(tmp_path / "other.db")), 8) as race:
        rounds = race.run(play, FRESH_FILES)
    found = [f"file {n}: {text}" for n, outcomes in enumerate(rounds) for text in all_won(outcomes)]
    assert found == []
    for n in range(FRESH_FILES):
        with closing(open_sqlite(str(tmp_path / f"fresh-{n}.db"))) as backend:
            seen = read_back(backend, plays.TENANT, "first")
            assert (seen.revision, len(seen.nodes), seen.defects) == (8, 16, [])


def test_four_busy_processes_meet_no_error(tmp_path: Path) -> None:
    """'database is locked' is never the caller's problem."""
    path = str(tmp_path / "store.db")
    with Race(partial(open_sqlite, path), 4) as race:
        (outcomes,) = race.run(plays.busy, 1)
    assert list(all_won(outcomes)) == []
    counts = [one.answer for one in outcomes]
    print(f"4 processes, {sum(counts)} commits in {plays.BUSY_S} s, by process {counts}")
    assert min(counts) > 0
    with closing(open_sqlite(path)) as backend:
        assert defects(backend) == []
        page = backend.read([ListSessions(tenant=plays.TENANT, limit=100)])[0]
        heads = [read_back(backend, plays.TENANT, one.id).revision for one in page]
    assert sum(heads) == sum(counts)


def test_opening_while_another_process_moves_the_log(tmp_path: Path) -> None:
    """The file is being written by a checkpoint: whoever opens it must not take it for damaged."""
    path = str(tmp_path / "store.db")
    child = Child(plays.grow, path)
    try:
        assert next(child.hear(60.0)) == b"growing"
        for _ in range(OPENINGS):
            with closing(open_sqlite(path)) as backend:
                backend.write(plays.commit_of("mine", new_id(), "x"))
    finally:
        child.kill()
    with closing(open_sqlite(path)) as backend:
        assert defects(backend) == []
        assert read_back(backend, plays.TENANT, "mine").revision == OPENINGS


# --- negative controls: one flipped answer in one round is found


def test_control_a_second_winner_is_found() -> None:
    three = [Outcome(0, 1), Outcome(1, None), Outcome(2, None)]
    assert list(one_winner(three, loss=None)) == []
    assert list(one_winner([*three[:2], replace(three[2], answer=1)], loss=None))
    assert list(one_winner([replace(three[0], answer=None), *three[1:]], loss=None))


def test_control_a_wrong_error_is_found() -> None:
    three = [Outcome(0, 1), Outcome(1, error="RevisionMoved")]
    assert list(one_winner(three, loss="RevisionMoved")) == []
    assert list(one_winner([three[0], Outcome(1, error="Busy")], loss="RevisionMoved"))
    assert list(all_won(three))


def test_control_a_second_writer_of_a_turn_is_found(tmp_path: Path) -> None:
    with closing(open_sqlite(str(tmp_path / "store.db"))) as backend:
        first = backend.write(plays.commit_of("s", "t", "one", "two"))
        again = backend.write(plays.commit_of("s", "t", "one", "two"))
    assert list(one_commit([Outcome(0, first), Outcome(1, again)])) == []
    assert list(one_commit([Outcome(0, first), Outcome(1, first)]))
    moved = replace(again, revision=2)
    assert list(one_commit([Outcome(0, first), Outcome(1, moved)]))
    assert list(one_commit([Outcome(0, first), Outcome(1, error="TurnConflict")]))


def test_control_a_fence_that_comes_twice_is_found() -> None:
    assert list(rising([1, 2, 4, 5])) == []
    assert list(rising([1, 2, 2, 5]))
    assert list(rising([1, 3, 2, 5]))
