"""Storms of work on the model and on another backend: every answer the same, nothing lost.

LEDGERSTONE_STORM_STEPS=20000 pytest tests/machine/test_storm.py
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command
from ledgerstone.commands.sessions import CreateSession, GetHead, GetSession
from ledgerstone.commands.turns import VerifySession, VerifyStore
from ledgerstone.commands.work import Completion, ExplainWork, ListDead, ListWork, PeekWork
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Session
from ledgerstone.records.work import Claim, Taken
from ledgerstone.testing.wrappers import Wrapper
from tests.machine.machine import Make, difference, outcome, same
from tests.machine.sabotage import KeepsWhatIsHandedBack, LosesAWakeUp, SkipsTheLine
from tests.machine.storm import SESSIONS, Storm
from tests.machine.test_machine import (
    file_in,
    file_reopened_in,
    open_memory,
    reopening_in,
    sqlite_in,
)
from tests.oracle.backend import open_oracle

STEPS = int(os.environ.get("LEDGERSTONE_STORM_STEPS", "600"))
LOOK_EVERY = 5
ENOUGH = 500
# What a storm must have met often enough to mean anything, per hundred steps.
MET = {"TakeWork": 3, "ClaimWork": 0.3, "a group": 0.3, "CommitTurn": 2, "FailClaim": 0.3}


def questions() -> list[Any]:
    asked: list[Any] = [ListDead(tenant="default", total=True), ExplainWork(tenant="default")]
    asked += [PeekWork(tenant="default", queue=queue) for queue in ("default", "side")]
    for session in SESSIONS:
        place: dict[str, Any] = {"tenant": "default", "session": session}
        asked += [ListWork(**place), ListWork(**place, pending=True), ExplainWork(**place)]
        asked.append(GetHead(tenant="default", id=session))
    return asked


def check(asked: object, wanted: Any, got: Any) -> None:
    assert same(got, wanted), difference(asked, wanted, got)


def rage(subject: Make, seed: int, steps: int) -> None:
    print(f"storm seed {seed}")
    clock = ManualClock()
    model, other = open_oracle(clock), subject(clock)
    storm = Storm(model, clock, seed)
    met: Counter[str] = Counter()
    try:
        for session in SESSIONS:
            for backend in (model, other):
                made = Session(id=session, tenant="default")
                backend.write(CreateSession(tenant="default", session=made))
        for n in range(steps):
            command = storm.next()
            step(model, other, command, met)
            if n % LOOK_EVERY == 0:
                look(model, other)
        verify(other)
    finally:
        model.close()
        other.close()
    for kind, share in MET.items() if steps >= ENOUGH else ():
        assert met[kind] >= share * steps / 100, f"{kind} was met {met[kind]} times: {met}"


def step(model: Backend, other: Backend, command: Command[Any], met: Counter[str]) -> None:
    wanted = outcome(lambda: model.write(command))
    check(command, wanted, outcome(lambda: other.write(command)))
    failed = isinstance(wanted, tuple) and isinstance(wanted[0], type)
    if wanted is not None and not failed:
        met[type(command).__name__] += 1
    claim = wanted.claim if isinstance(wanted, Taken) else wanted
    if isinstance(claim, Claim) and len(claim.batches) > 1:
        met["a group"] += 1


def look(model: Backend, other: Backend) -> None:
    asked = questions()
    for query, wanted, got in zip(asked, model.read(asked), other.read(asked), strict=True):
        check(query, wanted, got)


def verify(backend: Backend) -> None:
    """Nothing that lawful commands did may look like damage."""
    for session in SESSIONS:
        assert backend.read([VerifySession(tenant="default", session=session)])[0].defects == []
    assert backend.read([VerifyStore(tenant="default")])[0].defects == []


def test_memory_stands_the_storm(seed: int) -> None:
    rage(open_memory, seed, 2 * STEPS)


def test_sqlite_stands_the_storm(tmp_path: Path, seed: int) -> None:
    rage(sqlite_in(tmp_path), seed, STEPS)


def test_file_stands_the_storm(tmp_path: Path, seed: int) -> None:
    rage(file_in(tmp_path), seed, STEPS)


@pytest.mark.slow
def test_sqlite_stands_the_storm_through_reopening(tmp_path: Path, seed: int) -> None:
    rage(reopening_in(tmp_path), seed, STEPS // 4)


@pytest.mark.slow
def test_file_stands_the_storm_through_reopening(tmp_path: Path, seed: int) -> None:
    rage(file_reopened_in(tmp_path, seed), seed, STEPS)


@pytest.mark.parametrize("lie", [KeepsWhatIsHandedBack, LosesAWakeUp, SkipsTheLine])
def test_a_backend_that_lies_about_work_is_caught(
    lie: Callable[[Backend], Wrapper], seed: int
) -> None:
    """The negative control: the same storm over a model that one wrapper falsifies."""
    with pytest.raises(AssertionError, match="model "):
        rage(lambda clock: lie(open_memory(clock)), seed, 20 * STEPS)


def test_every_batch_of_a_storm_is_served_in_the_end(seed: int) -> None:
    """When it is over and workers keep coming, everything is done, dead or out of reach."""
    clock = ManualClock()
    backend = open_memory(clock)
    storm = Storm(backend, clock, seed)
    for session in SESSIONS:
        made = Session(id=session, tenant="default")
        backend.write(CreateSession(tenant="default", session=made))
    for _ in range(STEPS):
        outcome(lambda: backend.write(storm.next()))
    rounds = 0
    while any(storm.queued(session) for session in alive(backend)):
        clock.advance(1800)
        rounds += 1
        assert rounds < 20 * STEPS, "some work is never served"
        taken = backend.write(storm.take())
        if taken is not None:
            done = Completion(taken.claim.id, taken.claim.token)
            backend.write(storm.turn(taken.lease.session, done, ()))


def alive(backend: Backend) -> list[str]:
    sessions = backend.read([GetSession(tenant="default", id=session) for session in SESSIONS])
    return [one.id for one in sessions if one is not None and one.deleted_us is None]
