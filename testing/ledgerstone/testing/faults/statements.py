"""kill -9 between any two statements: the child kills itself before its n-th one.

Each point has a name, the statement that was not carried out any more. Unlike a kill at a random
moment this reaches every place between BEGIN and COMMIT, and the same one each time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import msgspec

from ledgerstone.clock import ManualClock
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.processes import Child, Say
from ledgerstone.testing.faults.scripts import START_US, Step
from ledgerstone.testing.faults.storage import FILE, Stage, Tally, checkpoints_often, examine
from ledgerstone.testing.faults.told import Sent, Told, perform

CHILD_WAIT_S = 60.0
NAME_CHARS = 60

_encode = msgspec.json.Encoder().encode


class Said(msgspec.Struct, frozen=True):
    """A word of the child: how many commands have an answer, and which of these were refused."""

    what: str
    number: int = 0
    text: str = ""


class Aloud(Told):
    """Answers that are passed on as they come."""

    def __init__(self, say: Say) -> None:
        super().__init__()
        self._say = say
        self._count = 0

    def heard(self, sent: Sent, answer: Any, *, gone: bool = False) -> None:
        refused = type(answer).__name__ if isinstance(answer, LedgerstoneError) else ""
        self._say(_encode(Said("answered", self._count, refused)))
        self._count += 1


class Order(msgspec.Struct, frozen=True):
    """What the child shall do, and before which statement it dies; 0: it lives."""

    path: str
    steps: Sequence[Step]
    at: int
    change: Callable[[Backend], Backend] | None = None


def live(say: Say, order: Order) -> None:
    """The life of the child."""
    reached = 0

    def traced(cursor: apsw.Cursor, statement: str, values: Any) -> bool:
        nonlocal reached
        reached += 1
        if reached == order.at:
            say(_encode(Said("dying", reached, " ".join(statement.split())[:NAME_CHARS])))
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = traced

    apsw.connection_hooks.append(watch)
    clock = ManualClock(START_US)
    with checkpoints_often():
        backend: Backend = open_sqlite(order.path, clock=clock)
        if order.change is not None:
            backend = order.change(backend)
        perform(backend, order.steps, clock, Aloud(say))
        backend.close()
    say(_encode(Said("ended", reached)))


def kill_everywhere(
    stage: Stage,
    *,
    points: Iterable[int] | None = None,
    enough: Callable[[Tally], bool] = lambda tally: False,
) -> Tally:
    """Kill before the n-th statement of the play, for every n until the play ends before it."""
    tally = Tally()
    for at in points or count(1):
        with stage.copy() as folder:
            told, name = _killed(stage, folder, at)
            if not name or enough(tally):
                break
            tally.points += 1
            tally.add(told)
            found = told.violations + examine(stage, folder, told)
            tally.violations += [f"{name}: {one}" for one in found]
    return tally


def _killed(stage: Stage, folder: Path, at: int) -> tuple[Told, str]:
    """What the child had said, and the name of the point where it died."""
    told, name = Told(stage.history), ""
    sent = [
        (n, Sent(step.now_us, one)) for n, step in enumerate(stage.steps) for one in step.commands
    ]
    answered = 0
    child = Child(live, Order(str(folder / FILE), stage.steps, at, stage.change))
    try:
        for data in child.hear(CHILD_WAIT_S):
            word = msgspec.json.decode(data, type=Said)
            if word.what == "answered":
                told.accept(sent[word.number][1], word.text)
                answered += 1
            elif word.what == "dying":
                name = f"before statement {word.number}, {word.text}"
    finally:
        child.kill()
    # The step under way may be stored or not; what came after it was never sent.
    under_way = sent[answered][0] if answered < len(sent) else -1
    told.unknown = [one for n, one in sent[answered:] if n == under_way]
    told.never = [one for n, one in sent[answered:] if n != under_way]
    for one in told.unknown:
        told.plan(one.command)
    return told, name
