"""32 writers with the same turn or the same revision: one writes, the others are told so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults import crowds, sabotage_rules
from ledgerstone.testing.faults.crowds import SESSIONS, Ask, in_processes, in_tasks, in_threads
from ledgerstone.testing.faults.races import Outcome, Race, one_commit, one_winner
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place, every_place, every_shared_place, opened

pytestmark = [pytest.mark.faults, pytest.mark.slow]

Check = Callable[[Sequence[Outcome]], Iterator[str]]
Rounds = Callable[[Ask, int, int], list[list[Outcome]]]

SERIES = 200
"""Rounds that are kept in memory at once."""

PROCESSES = 8
WAYS = {"threads": in_threads, "tasks": in_tasks}


class Contest:
    """What everybody sends, what a round must look like, and what each round leaves behind."""

    def __init__(self, title: str, ask: Ask, check: Check, sessions: str, nodes: int) -> None:
        self.title = title
        self.ask = ask
        self.check = check
        self.sessions = [f"{sessions}-{n}" for n in range(SESSIONS)]
        self.nodes = nodes


CONTESTS = {
    "same-turn": Contest(
        "same turn, same content, 32 writers", crowds.same_turn, one_commit, "same", 3
    ),
    "other-content": Contest(
        "same turn, other content, 32 writers",
        crowds.other_content,
        partial(one_winner, loss="TurnConflict"),
        "other",
        1,
    ),
    "same-revision": Contest(
        "same expected revision, 32 writers",
        crowds.same_revision,
        partial(one_winner, loss="RevisionMoved"),
        "seen",
        2,
    ),
}
every_contest = pytest.mark.parametrize("contest", CONTESTS.values(), ids=CONTESTS.keys())


def hold(contest: Contest, play: Rounds, backend: Backend, rounds: int, line: Line) -> None:
    """Judge all rounds, a series at a time, then what is stored."""
    while line.n < rounds:
        series = play(contest.ask, line.n, min(SERIES, rounds - line.n))
        for number, outcomes in enumerate(series, start=line.n):
            line.violations += [f"round {number}: {text}" for text in contest.check(outcomes)]
        line.n += len(series)
    line.violations += crowds.leftovers(
        backend, contest.sessions, turns=rounds, nodes=contest.nodes * rounds
    )


@every_contest
@every_place
@pytest.mark.parametrize("way", WAYS)
def test_one_of_32_writes(
    way: str, place: Place, contest: Contest, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    title = f"{contest.title} ({way})"
    with scoreboard.line(title, place.name) as line, opened(place, tmp_path) as backend:
        hold(contest, partial(WAYS[way], backend), backend, scale(place.few, place.rounds), line)


@every_contest
@every_shared_place
def test_one_of_32_in_eight_processes_writes(
    place: Place, contest: Contest, tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    title = f"{contest.title} (8 processes x 4 threads)"
    with scoreboard.line(title, place.name) as line, quick_disk(tmp_path) as folder:
        make = place.at(folder)
        backend = make()
        with Race(make, PROCESSES) as race:
            rounds = scale(place.few // 4, place.rounds // 5)
            hold(contest, partial(in_processes, race), backend, rounds, line)
        backend.close()


# --- negative controls

SABOTAGE: dict[str, type[Wrapper]] = {
    "same-turn": sabotage_rules.ForgetsTurns,
    "other-content": sabotage_rules.ForgetsTurns,
    "same-revision": sabotage_rules.IgnoresRevision,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CONTESTS)
def test_control_a_second_winner_is_found_out(
    name: str, way: str, tmp_path: Path, scoreboard: Scoreboard
) -> None:
    contest, place = CONTESTS[name], PLACES["sqlite"]
    title = f"{contest.title} ({way}), {SABOTAGE[name].__name__}"
    with (
        scoreboard.line(title, place.name, control=True) as line,
        opened(place, tmp_path) as backend,
    ):
        sabotaged = SABOTAGE[name](backend)
        hold(contest, partial(WAYS[way], sabotaged), sabotaged, 5, line)
        assert any(text.startswith("round") for text in line.violations)
        assert any("are stored" in text for text in line.violations)


def test_control_a_second_winner_in_another_process_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    contest, place = CONTESTS["same-revision"], PLACES["sqlite"]
    with (
        scoreboard.line("same revision in 8 processes, ignored", place.name, control=True) as line,
        quick_disk(tmp_path) as folder,
        Race(partial(careless, place.at(folder)), PROCESSES) as race,
    ):
        for outcomes in in_processes(race, contest.ask, 0, 3):
            line.violations += contest.check(outcomes)
        line.n = 3


def careless(make: Callable[[], Backend]) -> Backend:
    return sabotage_rules.IgnoresRevision(make())
