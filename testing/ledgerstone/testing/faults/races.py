"""Several processes that do the same thing at the same moment, round after round.

A play is an importable function of (backend, round, racer). Whatever it returns, or the error of
ours that it raises, is one outcome. The checks say what a round of outcomes has to look like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from threading import BrokenBarrierError
from types import TracebackType
from typing import Any

import msgspec

from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.processes import JOIN_S, server

ROUND_WAIT_S = 60.0

Make = Callable[[], Backend]
Play = Callable[[Backend, int, int], Any]


class Outcome(msgspec.Struct, frozen=True):
    """What one racer got: an answer, or the name of an error."""

    racer: int
    answer: Any = None
    error: str | None = None

    @property
    def won(self) -> bool:
        return self.error is None and self.answer is not None


class Race:
    """Racers that have opened the same place, each in a process of its own."""

    def __init__(self, make: Make, racers: int) -> None:
        self.racers = racers
        # Kept: the semaphores vanish with it, and a racer may not have found them yet.
        self._barrier = server().Barrier(racers)
        self._wires: list[Connection] = []
        self._processes = []
        for n in range(racers):
            ours, theirs = server().Pipe()
            process = server().Process(
                target=_race, args=(theirs, self._barrier, make, n), daemon=True
            )
            process.start()
            theirs.close()
            self._wires.append(ours)
            self._processes.append(process)
        for wire in self._wires:
            _receive(wire)

    def run(self, play: Play, rounds: int, first: int = 0) -> list[list[Outcome]]:
        """The outcomes of each round, by racer; rounds are numbered from `first`."""
        for wire in self._wires:
            wire.send((play, first, rounds))
        series = [_receive(wire) for wire in self._wires]
        return [list(outcomes) for outcomes in zip(*series, strict=True)]

    def close(self) -> None:
        for wire in self._wires:
            wire.close()
        for process in self._processes:
            process.join(JOIN_S)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()

    def __enter__(self) -> Race:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def one_winner(outcomes: Sequence[Outcome], loss: str | None) -> Iterator[str]:
    """Exactly one won; the others got this error, or None when there is none to get."""
    winners = [one.racer for one in outcomes if one.won]
    if len(winners) != 1:
        yield f"{len(winners)} of {len(outcomes)} won: {winners}"
    for one in outcomes:
        if not one.won and one.error != loss:
            yield f"racer {one.racer} lost with {one.error}, not with {loss}"


def one_commit(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Everybody got the same answer, and exactly one of them made it: answers have `replayed`."""
    fresh = [one.racer for one in outcomes if one.won and not one.answer.replayed]
    if len(fresh) != 1:
        yield f"{len(fresh)} of {len(outcomes)} wrote the turn: {fresh}"
    same = {
        msgspec.json.encode(msgspec.structs.replace(one.answer, replayed=False))
        for one in outcomes
        if one.won
    }
    if len(same) != 1:
        yield f"{len(same)} different answers to one turn"
    for one in outcomes:
        if not one.won:
            yield f"racer {one.racer} got {one.error}"


def all_won(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Nobody met an error."""
    for one in outcomes:
        if not one.won:
            yield f"racer {one.racer} got {one.error}"


def rising(numbers: Sequence[int]) -> Iterator[str]:
    """Each number is greater than the one before."""
    for n, (earlier, later) in enumerate(pairwise(numbers)):
        if later <= earlier:
            yield f"{later} after {earlier} at {n + 1}"


def _receive(wire: Connection) -> list[Outcome]:
    if not wait([wire], ROUND_WAIT_S):
        raise AssertionError("a racer does not answer")
    answer = wire.recv()
    if isinstance(answer, Exception):
        raise answer
    outcomes: list[Outcome] = answer
    return outcomes


def _race(wire: Connection, barrier: Any, make: Make, racer: int) -> None:
    """The life of a racer: open once, then one series after the other until the wire is cut."""
    try:
        backend = make()
    except Exception as error:
        wire.send(RuntimeError(f"racer {racer}: {type(error).__name__}: {error}"))
        return
    wire.send([])
    while True:
        try:
            play, first, rounds = wire.recv()
        except EOFError:
            break
        try:
            series = range(first, first + rounds)
            wire.send([_outcome(barrier, play, backend, n, racer) for n in series])
        except Exception as error:
            # Without this one the others would wait at the barrier for ever.
            barrier.abort()
            wire.send(RuntimeError(f"racer {racer}: {type(error).__name__}: {error}"))
    backend.close()


def _outcome(barrier: Any, play: Play, backend: Backend, number: int, racer: int) -> Outcome:
    try:
        barrier.wait(ROUND_WAIT_S)
    except BrokenBarrierError:
        return Outcome(racer, error="BrokenBarrier")
    try:
        return Outcome(racer, play(backend, number, racer))
    except LedgerstoneError as error:
        return Outcome(racer, error=type(error).__name__)
