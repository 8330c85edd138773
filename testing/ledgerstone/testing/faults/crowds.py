"""Many writers who send the same thing at the same moment, round after round.

    in_threads     threads on one handle
    in_tasks       asyncio tasks on one handle
    in_processes   the processes of a `Race`, each with several threads

What is sent is a command made of (round, writer); each answer or error of ours is one outcome,
and the checks of `races` say what a round of outcomes has to look like.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ledgerstone.commands import Command, Guard
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.histories import read_back
from ledgerstone.testing.faults.races import Outcome, Race

WRITERS = 32
SESSIONS = 7
ROUND_WAIT_S = 60.0
SWITCH_S = 0.0005

Ask = Callable[[int, int], Command[Any]]


def same_turn(number: int, writer: int) -> Command[Any]:
    """The same turn with the same content from everybody."""
    return commit_of(f"same-{number % SESSIONS}", f"t{number}", "one", "two", "three")


def other_content(number: int, writer: int) -> Command[Any]:
    """The same turn id with other content from everybody."""
    return commit_of(f"other-{number % SESSIONS}", f"t{number}", f"by {writer}")


def same_revision(number: int, writer: int) -> Command[Any]:
    """Everybody has seen the same revision of one session and commits on it."""
    session, revision = f"seen-{number % SESSIONS}", number // SESSIONS
    return commit_of(session, f"{number}/{writer}", "mine", "too", guard=Guard(revision=revision))


def in_threads(
    backend: Backend, ask: Ask, first: int, rounds: int, writers: int = WRITERS
) -> list[list[Outcome]]:
    """The outcomes of each round; all threads start a round together."""
    together = threading.Barrier(writers)
    series: list[list[Outcome]] = [[] for _ in range(writers)]

    def live(writer: int) -> None:
        for number in range(first, first + rounds):
            together.wait(ROUND_WAIT_S)
            series[writer].append(_sent(backend, ask, number, writer))

    with switching_often():
        threads = [threading.Thread(target=live, args=(n,), daemon=True) for n in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [list(outcomes) for outcomes in zip(*series, strict=True)]


def in_tasks(
    backend: Backend, ask: Ask, first: int, rounds: int, writers: int = WRITERS
) -> list[list[Outcome]]:
    """The outcomes of each round; all tasks of a round wait at the same time."""

    async def send(number: int, writer: int) -> Outcome:
        try:
            return Outcome(writer, await backend.awrite(ask(number, writer)))
        except LedgerstoneError as error:
            return Outcome(writer, error=type(error).__name__)

    async def main() -> list[list[Outcome]]:
        return [
            list(await asyncio.gather(*(send(number, writer) for writer in range(writers))))
            for number in range(first, first + rounds)
        ]

    return asyncio.run(main())


def in_processes(
    race: Race, ask: Ask, first: int, rounds: int, writers: int = WRITERS
) -> list[list[Outcome]]:
    """The outcomes of each round; `ask` must be importable in the processes of the race."""
    share = writers // race.racers
    series = race.run(partial(_share_of_a_round, ask, share), rounds, first)
    return [[one for racer in outcomes for one in racer.answer] for outcomes in series]


def leftovers(
    backend: Backend, sessions: Sequence[str], *, turns: int, nodes: int
) -> Iterator[str]:
    """What is wrong with the store after all rounds: too many turns, too few nodes, a defect."""
    found = [read_back(backend, TENANT, session) for session in sessions]
    for one in found:
        yield from (f"{one.session}: {defect.kind} {defect.detail}" for defect in one.defects)
        if [turn.revision for turn in one.turns] != list(range(1, one.revision + 1)):
            yield f"{one.session} is at {one.revision} with {len(one.turns)} turns"
    if (kept := sum(len(one.turns) for one in found)) != turns:
        yield f"{kept} turns are stored, {turns} were acknowledged"
    if (there := sum(len(one.nodes) for one in found)) != nodes:
        yield f"{there} nodes are stored, {nodes} were acknowledged"


def _share_of_a_round(ask: Ask, share: int, backend: Backend, number: int, racer: int) -> Any:
    """What one process does in a round: its threads send at the same moment."""
    ours: list[Outcome | None] = [None] * share

    def live(n: int) -> None:
        ours[n] = _sent(backend, ask, number, racer * share + n)

    threads = [threading.Thread(target=live, args=(n,)) for n in range(share)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ours


def _sent(backend: Backend, ask: Ask, number: int, writer: int) -> Outcome:
    command = ask(number, writer)
    try:
        return Outcome(writer, backend.write(command))
    except LedgerstoneError as error:
        return Outcome(writer, error=type(error).__name__)
    except Exception as error:
        # Nothing else may come out of a store; named, so that the round shows it.
        return Outcome(writer, error=f"{type(error).__name__}: {error}")


@contextmanager
def switching_often() -> Iterator[None]:
    """Let threads meet in the middle of things: by default one runs for 5 ms at a time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
