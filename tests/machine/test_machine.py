"""Random commands to the oracle and to every engine; each answer must be the same.

LEDGERSTONE_MACHINE_EXAMPLES=2000 LEDGERSTONE_MACHINE_STEPS=80 pytest tests/machine
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from ledgerstone.clock import ManualClock
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.wrappers import Reopening, Wrapper
from tests.machine.ended_rules import without_ended
from tests.machine.machine import Differs, LedgerMachine, Make, machine_of
from tests.machine.reopening import ReopensAtRandom
from tests.machine.sabotage import (
    AnswersAnOldHead,
    AppliesRetriesTwice,
    DropsANode,
    MovesAllButTheFirst,
    ReplacesWhatIsKept,
    SaysTheWrongError,
    TakesAnyIncarnation,
)
from tests.machine.ticket_rules import at_tickets
from tests.machine.work_rules import at_work
from tests.oracle.backend import open_oracle

Narrowing = Callable[[type[RuleBasedStateMachine]], type[RuleBasedStateMachine]]
EXAMPLES = int(os.environ.get("LEDGERSTONE_MACHINE_EXAMPLES", "60"))
STEPS = int(os.environ.get("LEDGERSTONE_MACHINE_STEPS", "30"))
CONTROL_EXAMPLES = 400
# A difference is made small before it is shown, which takes far longer than finding it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def open_memory(clock: ManualClock) -> Backend:
    return MemoryBackend(clock=clock)


def sqlite_in(folder: Path) -> Make:
    """A fresh file for each example."""

    def make(clock: ManualClock) -> Backend:
        return open_sqlite(fresh_path(folder), clock=clock)

    return make


def reopening_in(folder: Path) -> Make:
    def make(clock: ManualClock) -> Backend:
        path = fresh_path(folder)
        return Reopening(lambda: open_sqlite(path, clock=clock))

    return make


def file_in(folder: Path) -> Make:
    """A fresh directory for each example; how fast a disk flushes is not asked here."""

    def make(clock: ManualClock) -> Backend:
        return open_file(fresh_path(folder), durability="process", clock=clock)

    return make


def file_reopened_in(folder: Path, seed: int) -> Make:
    """Closed and opened again at random, with a snapshot and without; each example alike."""

    def make(clock: ManualClock) -> Backend:
        path = fresh_path(folder)

        def reopened(random: Random) -> Backend:
            lines = random.choice((1, 5, 1000))
            return open_file(path, durability="process", clock=clock, snapshot_lines=lines)

        return ReopensAtRandom(reopened, Random(seed))

    return make


def fresh_path(folder: Path) -> str:
    return str(Path(tempfile.mkdtemp(dir=folder)) / "store.db")


def run(
    subject: Make,
    seed: int,
    examples: int,
    *,
    shrink: bool = True,
    narrow: Narrowing | None = None,
    kind: type[LedgerMachine] = LedgerMachine,
) -> None:
    print(f"machine seed {seed}, {examples} examples of {STEPS} steps")
    machine: type[RuleBasedStateMachine] = machine_of(open_oracle, subject, kind)
    machine = machine if narrow is None else narrow(machine)
    phases = (Phase.generate, Phase.shrink) if shrink else (Phase.generate,)
    rules = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=phases,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(hypothesis.seed(seed)(machine), settings=rules)


def test_memory_answers_like_the_oracle(seed: int) -> None:
    run(open_memory, seed, 4 * EXAMPLES)


def test_memory_works_like_the_oracle(seed: int) -> None:
    run(open_memory, seed, 2 * EXAMPLES, narrow=at_work)


def test_memory_decides_like_the_oracle(seed: int) -> None:
    run(open_memory, seed, 2 * EXAMPLES, narrow=at_tickets)


def test_sqlite_answers_like_the_oracle(tmp_path: Path, seed: int) -> None:
    run(sqlite_in(tmp_path), seed, EXAMPLES)


@pytest.mark.slow
def test_sqlite_answers_like_the_oracle_through_reopening(tmp_path: Path, seed: int) -> None:
    run(reopening_in(tmp_path), seed, max(1, EXAMPLES // 10))


def test_file_answers_like_the_oracle(tmp_path: Path, seed: int) -> None:
    run(file_in(tmp_path), seed, EXAMPLES)


@pytest.mark.slow
def test_file_answers_like_the_oracle_through_reopening(tmp_path: Path, seed: int) -> None:
    run(file_reopened_in(tmp_path, seed), seed, EXAMPLES)


def test_sqlite_works_like_the_oracle(tmp_path: Path, seed: int) -> None:
    run(sqlite_in(tmp_path), seed, EXAMPLES // 2, narrow=at_work)


def test_file_works_like_the_oracle(tmp_path: Path, seed: int) -> None:
    run(file_in(tmp_path), seed, EXAMPLES // 2, narrow=at_work)


@pytest.mark.slow
def test_file_works_like_the_oracle_through_reopening(tmp_path: Path, seed: int) -> None:
    run(file_reopened_in(tmp_path, seed), seed, EXAMPLES // 2, narrow=at_work)


def test_sqlite_decides_like_the_oracle(tmp_path: Path, seed: int) -> None:
    run(sqlite_in(tmp_path), seed, EXAMPLES // 2, narrow=at_tickets)


def test_file_decides_like_the_oracle(tmp_path: Path, seed: int) -> None:
    run(file_in(tmp_path), seed, EXAMPLES // 2, narrow=at_tickets)


@pytest.mark.slow
def test_file_decides_like_the_oracle_through_reopening(tmp_path: Path, seed: int) -> None:
    run(file_reopened_in(tmp_path, seed), seed, EXAMPLES // 2, narrow=at_tickets)


def test_the_oracle_answers_like_itself(seed: int) -> None:
    """Two instances of it: what differs here is the machine's own fault."""
    run(open_oracle, seed, EXAMPLES, narrow=without_ended)


LIES = [
    DropsANode,
    AnswersAnOldHead,
    MovesAllButTheFirst,
    SaysTheWrongError,
    AppliesRetriesTwice,
    ReplacesWhatIsKept,
    TakesAnyIncarnation,
]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_backend_that_lies_is_caught(lie: Callable[[Backend], Wrapper], seed: int) -> None:
    """The negative control: the same machine over a model that one wrapper falsifies."""
    with pytest.raises(Differs):
        run(lambda clock: lie(open_memory(clock)), seed, CONTROL_EXAMPLES, shrink=False)


def test_a_lying_file_is_caught(tmp_path: Path, seed: int) -> None:
    make = file_in(tmp_path)
    with pytest.raises(Differs):
        run(lambda clock: DropsANode(make(clock)), seed, CONTROL_EXAMPLES, shrink=False)


def test_a_lying_sqlite_is_caught(tmp_path: Path, seed: int) -> None:
    make = sqlite_in(tmp_path)
    with pytest.raises(Differs):
        run(lambda clock: DropsANode(make(clock)), seed, CONTROL_EXAMPLES, shrink=False)
