"""kill -9 at random moments: what was acknowledged stays, and nothing is ever half there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from random import Random

import msgspec

from ledgerstone.clock import monotonic_s
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.histories import (
    Acked,
    History,
    Verdict,
    decode_event,
    judge,
    read_back,
)
from ledgerstone.testing.faults.processes import Child, Say
from ledgerstone.testing.faults.victims import Victim

TENANT = "default"
KILL_AFTER_S = (0.001, 0.060)
FIRST_ACK_WAIT_S = 60.0

Make = Callable[[], Backend]


class Order(msgspec.Struct, frozen=True):
    """What a child shall do until it dies."""

    make: Make
    victim: Victim
    name: str
    seed: int
    change: Callable[[Backend], Backend] | None = None


class Killed(msgspec.Struct):
    """The tally of a series of kills."""

    seed: int
    kills: int = 0
    seconds: float = 0.0
    verdict: Verdict = msgspec.field(default_factory=Verdict)

    def __str__(self) -> str:
        found = self.verdict
        return (
            f"{self.kills} kills, {found.acked} turns acknowledged, {found.unacked} there without"
            f" an answer, {len(found.lost)} lost, {len(found.half)} half,"
            f" {len(found.violations)} violations, {self.seconds:.1f} s, seed {self.seed}"
        )


def kill_often(
    make: Make,
    victim: Victim,
    *,
    kills: int,
    seed: int,
    change: Callable[[Backend], Backend] | None = None,
    enough: Callable[[Verdict], bool] = lambda verdict: False,
) -> Killed:
    """Start a victim on the same place again and again, and kill it each time.

    After every kill the sessions it wrote to are judged through a new handle, at the end all of
    them. `change` is applied to the victim's backend only, say to sabotage it for a negative
    control. `enough` ends the series.
    """
    random = Random(seed)
    history, result = History(), Killed(seed)
    start_s = monotonic_s()
    while result.kills < kills and not enough(result.verdict):
        order = Order(make, victim, f"v{result.kills}", random.randrange(2**32), change)
        touched = kill_once(Child(run_victim, order), history, random)
        result.kills += 1
        result.verdict.add(judge_all(make, history, touched))
    whole = judge_all(make, history, set(history.planned))
    result.verdict.turns = whole.turns
    result.verdict.acked, result.verdict.unacked = whole.acked, whole.unacked
    result.verdict.add(whole)
    result.seconds = monotonic_s() - start_s
    return result


def kill_once(child: Child, history: History, random: Random) -> set[str]:
    """Let the child live for a moment after its first acknowledgement; the sessions it wrote to."""
    touched: set[str] = set()

    def note(data: bytes) -> bool:
        event = decode_event(data)
        history.add(event)
        touched.add(event.session)
        return isinstance(event, Acked)

    try:
        for data in child.hear(FIRST_ACK_WAIT_S):
            if note(data):
                break
        for data in child.hear(random.uniform(*KILL_AFTER_S)):
            note(data)
    finally:
        rest = child.kill()
    for data in rest:
        note(data)
    return touched


def judge_all(make: Make, history: History, sessions: set[str]) -> Verdict:
    """One verdict over several sessions, read through a handle of its own."""
    total = Verdict()
    with closing(make()) as backend:
        for session in sorted(sessions):
            one = judge(history, read_back(backend, TENANT, session))
            total.add(one)
            total.turns += one.turns
            total.acked += one.acked
            total.unacked += one.unacked
    return total


def run_victim(say: Say, order: Order) -> None:
    """The life of the child."""
    backend = order.make()
    if order.change is not None:
        backend = order.change(backend)
    order.victim(say, backend, order.name, order.seed)
