"""Two and eight processes at the same thing in the same moment: one winner, equal answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ledgerstone.commands.sessions import ListSessions
from ledgerstone.commands.turns import VerifySession
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.ids import new_id
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.histories import read_back
from ledgerstone.testing.faults.processes import Child
from ledgerstone.testing.faults.races import (
    Make,
    Outcome,
    Play,
    Race,
    all_won,
    one_commit,
    one_winner,
    rising,
)
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from tests.crash import plays
from tests.faults.places import SHARED, Place, every_shared_place
from tests.postgres_beds import open_store, places

pytestmark = [pytest.mark.crash, pytest.mark.faults]

ROUNDS = {2: (300, 3_000), 8: (60, 600)}
SESSIONS_MAX = 100_000
Check = Callable[[Sequence[Outcome]], Iterator[str]]


class Track(msgspec.Struct):
    """The racers, and how to open the place they race on."""

    racers: Race
    backend: str
    make: Make


TRACKS = [(name, racers) for name in SHARED for racers in ROUNDS]


@pytest.fixture(params=TRACKS, ids=lambda one: f"{one[0]}-{one[1]}-processes", scope="module")
def race(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Track]:
    """The racers stay for all tests of their number: starting them is the slow part."""
    name, racers = request.param
    make = SHARED[name].at(tmp_path_factory.mktemp("race"))
    with Race(make, racers) as ready:
        yield Track(ready, name, make)


Run = Callable[[str, Play, Check], AbstractContextManager[tuple[Line, list[list[Outcome]]]]]


@pytest.fixture
def run(race: Track, scoreboard: Scoreboard, scale: Scale) -> Run:
    """Play all rounds, and judge the outcomes of every one of them; the block may judge more."""
    racers = race.racers

    @contextmanager
    def play_all(
        title: str, play: Play, check: Check
    ) -> Iterator[tuple[Line, list[list[Outcome]]]]:
        with scoreboard.line(f"{title} ({racers.racers} processes)", race.backend) as line:
            rounds = racers.run(play, scale(*ROUNDS[racers.racers]))
            line.n = len(rounds)
            for n, outcomes in enumerate(rounds):
                line.violations += [f"round {n}: {text}" for text in check(outcomes)]
            with closing(race.make()) as backend:
                line.violations += defects(backend)
            yield line, rounds

    return play_all


def defects(backend: Backend) -> list[str]:
    page = backend.read([ListSessions(tenant=TENANT, order="id", limit=SESSIONS_MAX)])[0]
    queries = [VerifySession(tenant=TENANT, session=one.id) for one in page]
    return [str(defect) for one in backend.read(queries) for defect in one.defects]


def winners(rounds: list[list[Outcome]]) -> list[Any]:
    return [one.answer for outcomes in rounds for one in outcomes if one.won]


def test_the_first_lease_of_a_session_has_one_holder(run: Run) -> None:
    title = "the first lease has one holder"
    with run(title, plays.first_lease, partial(one_winner, loss=None)) as (_, rounds):
        assert set(winners(rounds)) == {1}


def test_a_lease_that_is_passed_on_has_rising_fences(run: Run) -> None:
    """Even rounds take, odd rounds give back: one holder in each, and one release."""
    title = "fences of a passed-on lease rise"
    with run(title, plays.next_lease, partial(one_winner, loss=None)) as (line, rounds):
        fences = winners(rounds[0::2])
        line.violations += rising(fences)
        assert len(fences) == len(rounds) / 2


def test_one_of_all_that_saw_the_same_revision_commits(run: Run) -> None:
    title = "same expected revision, one commits"
    with run(title, plays.same_revision, partial(one_winner, loss="RevisionMoved")) as (_, rounds):
        assert [answer.revision for answer in winners(rounds)] == list(range(1, len(rounds) + 1))


def test_the_same_turn_is_written_once_and_answered_to_all(run: Run, race: Track) -> None:
    with run("same turn, one commit, equal answers", plays.same_turn, one_commit) as (_, rounds):
        with closing(race.make()) as backend:
            found = [read_back(backend, TENANT, f"turns-{n}") for n in range(7)]
        assert sum(one.revision for one in found) == len(rounds)
        assert sum(len(one.nodes) for one in found) == 3 * len(rounds)


def test_the_same_turn_with_other_content_is_a_conflict(run: Run) -> None:
    title = "same turn, other content: conflict"
    with run(title, plays.other_content, partial(one_winner, loss="TurnConflict")):
        pass


def test_one_creates_the_session(run: Run) -> None:
    title = "one creates the session"
    with run(title, plays.same_session, partial(one_winner, loss="AlreadyExists")):
        pass


def test_all_commit_to_a_session_that_each_would_create(run: Run) -> None:
    """Nobody loses, and everybody has a revision of his own."""
    title = "all commit to a session that each would create"
    with run(title, plays.ensured_session, all_won) as (_, rounds):
        for outcomes in rounds:
            revisions = sorted(one.answer for one in outcomes)
            assert revisions == list(range(1, len(outcomes) + 1))


def fresh_file(folder: Path, number: int) -> Make:
    return partial(open_sqlite, str(folder / f"fresh-{number}.db"))


def fresh_database(folder: Path, number: int) -> Make:
    return partial(open_store, places().blank())


FRESH = {"sqlite": fresh_file, "postgres": fresh_database}


@every_shared_place
def test_eight_processes_make_a_fresh_store(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    """Migration races: nobody fails, nobody migrates twice, everybody's turn is there."""
    count = scale(min(20, place.rounds // 125), place.rounds // 50)
    makes = [FRESH[place.name](tmp_path, n) for n in range(count)]
    with scoreboard.line("eight processes make a fresh store", place.name) as line:
        with Race(place.at(tmp_path), 8) as race:
            rounds = race.run(partial(plays.fresh_place, makes), len(makes))
        for n, outcomes in enumerate(rounds):
            line.violations += [f"store {n}: {text}" for text in all_won(outcomes)]
            with closing(makes[n]()) as backend:
                seen = read_back(backend, TENANT, "first")
            assert (seen.revision, len(seen.nodes), seen.defects) == (8, 16, [])
        line.n = len(rounds)


@every_shared_place
def test_four_busy_processes_meet_no_error(
    place: Place, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    """'database is locked' is never the caller's problem."""
    make = place.at(tmp_path)
    with scoreboard.line("four busy processes meet no error", place.name) as line:
        with Race(make, 4) as race:
            series = race.run(plays.busy, scale(1, 5))
        counts = [[one.answer or 0 for one in outcomes] for outcomes in series]
        print(f"4 processes, commits in {plays.BUSY_S} s by round and process: {counts}")
        line.n = sum(map(sum, counts))
        line.violations += [text for outcomes in series for text in all_won(outcomes)]
        assert min(map(min, counts)) > 0
        with closing(make()) as backend:
            line.violations += defects(backend)
            page = backend.read([ListSessions(tenant=TENANT, limit=100)])[0]
            heads = [read_back(backend, TENANT, one.id).revision for one in page]
        if sum(heads) != line.n:
            line.violations.append(f"{sum(heads)} commits are there, {line.n} were answered")


def test_opening_while_another_process_moves_the_log(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    """The file is being written by a checkpoint: whoever opens it must not take it for damaged."""
    path = str(tmp_path / "store.db")
    with scoreboard.line("opening while the log is moved", "sqlite") as line:
        child = Child(plays.grow, path)
        try:
            assert next(child.hear(60.0)) == b"growing"
            for line.n in range(1, scale(100, 500) + 1):
                with closing(open_sqlite(path)) as backend:
                    backend.write(commit_of("mine", new_id(), "x"))
        finally:
            child.kill()
        with closing(open_sqlite(path)) as backend:
            line.violations += defects(backend)
            assert read_back(backend, TENANT, "mine").revision == line.n


# --- negative controls: one flipped answer in one round is found


def test_control_a_second_winner_is_found(scoreboard: Scoreboard) -> None:
    three = [Outcome(0, 1), Outcome(1, None), Outcome(2, None)]
    assert list(one_winner(three, loss=None)) == []
    flipped = [
        one_winner([*three[:2], replace(three[2], answer=1)], loss=None),
        one_winner([replace(three[0], answer=None), *three[1:]], loss=None),
    ]
    all_found("races, a second winner or none", flipped, scoreboard)


def test_control_a_wrong_error_is_found(scoreboard: Scoreboard) -> None:
    two = [Outcome(0, 1), Outcome(1, error="RevisionMoved")]
    assert list(one_winner(two, loss="RevisionMoved")) == []
    flipped = [
        one_winner([two[0], Outcome(1, error="Busy")], loss="RevisionMoved"),
        all_won(two),
    ]
    all_found("races, another error", flipped, scoreboard)


def test_control_a_second_writer_of_a_turn_is_found(tmp_path: Path, scoreboard: Scoreboard) -> None:
    with closing(open_sqlite(str(tmp_path / "store.db"))) as backend:
        first = backend.write(commit_of("s", "t", "one", "two"))
        again = backend.write(commit_of("s", "t", "one", "two"))
    assert list(one_commit([Outcome(0, first), Outcome(1, again)])) == []
    flipped = [
        one_commit([Outcome(0, first), Outcome(1, first)]),
        one_commit([Outcome(0, first), Outcome(1, replace(again, revision=2))]),
        one_commit([Outcome(0, first), Outcome(1, error="TurnConflict")]),
    ]
    all_found("races, a second writer of a turn", flipped, scoreboard)


def test_control_a_fence_that_comes_twice_is_found(scoreboard: Scoreboard) -> None:
    assert list(rising([1, 2, 4, 5])) == []
    all_found("races, a repeated fence", [rising([1, 2, 2, 5]), rising([1, 3, 2, 5])], scoreboard)


def test_control_a_race_without_rules_is_found(tmp_path: Path, scoreboard: Scoreboard) -> None:
    """The whole harness: real processes on a backend that forgets what a turn id is for."""
    make = partial(plays.forgetful, str(tmp_path / "store.db"))
    with scoreboard.line("races, ForgetsTurns", "sqlite", control=True) as line:
        with Race(make, 2) as race:
            rounds = race.run(plays.same_turn, 5)
        line.n = len(rounds)
        line.violations += [text for outcomes in rounds for text in one_commit(outcomes)]


def all_found(title: str, flipped: list[Iterator[str]], scoreboard: Scoreboard) -> None:
    with scoreboard.line(title, "sqlite", control=True) as line:
        for lie in flipped:
            found = list(lie)
            assert found
            line.violations += found
            line.n += 1
