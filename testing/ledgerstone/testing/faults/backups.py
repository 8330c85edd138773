"""Copies of a store that are made while somebody writes to it, judged by what was acknowledged.

A copy shows one moment: everything acknowledged before it was begun, perhaps more, never a part
of a turn, and in every session a prefix of what the store itself ends up with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random

import msgspec

from ledgerstone.errors import Damaged
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.histories import (
    Found,
    History,
    decode_event,
    judge,
    read_back,
)
from ledgerstone.testing.faults.kills import TENANT, Order, run_victim
from ledgerstone.testing.faults.processes import Child, ChildFailed
from ledgerstone.testing.faults.victims import Victim

FIRST_ACK_WAIT_S = 60.0
LOAD_S = (0.02, 0.3)
LISTEN_S = 0.01

Make = Callable[[], Backend]
Copy = Callable[[str], None]


class Copied(msgspec.Struct):
    """What a series of copies came to."""

    copies: int = 0
    turns: int = 0
    acked: int = 0
    violations: list[str] = []


class Listener:
    """Hears a child all the time, so that it never has to wait for somebody to listen."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._events: list[bytes] = []
        self._stop = threading.Event()
        self._error: ChildFailed | None = None
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def so_far(self) -> History:
        """Everything that was said until now; ChildFailed when the child broke instead."""
        if self._error is not None:
            raise self._error
        history = History()
        for data in list(self._events):
            history.add(decode_event(data))
        return history

    def stop(self) -> History:
        """Kill the child, and hear its last words."""
        self._stop.set()
        self._thread.join()
        self._events += self._child.kill()
        return self.so_far()

    def _listen(self) -> None:
        try:
            while not self._stop.is_set():
                self._events += self._child.hear(LISTEN_S)
        except ChildFailed as error:
            self._error = error


def copy_often(
    make: Make,
    victim: Victim,
    copy: Copy,
    open_copy: Callable[[str], Backend],
    targets: list[str],
    *,
    seed: int,
) -> Copied:
    """Copy the store to each target while a child writes; judge the copies when it is gone.

    The child is killed at the end: the store's own content is then what every copy is a prefix of.
    """
    random, result = Random(seed), Copied()
    child = Child(run_victim, Order(make, victim, "writer", seed))
    listener = Listener(child)
    before: list[History] = []
    try:
        _wait_for_an_answer(listener)
        for target in targets:
            threading.Event().wait(random.uniform(*LOAD_S))
            before.append(listener.so_far())
            copy(target)
    finally:
        said = listener.stop()
    with closing(make()) as backend:
        whole = {name: read_back(backend, TENANT, name) for name in sorted(said.planned)}
    for target, known in zip(targets, before, strict=True):
        result.copies += 1
        result.acked += sum(len(turns) for turns in known.acked.values())
        try:
            with closing(open_copy(target)) as backend:
                for session, final in whole.items():
                    found = read_back(backend, TENANT, session)
                    result.turns += len(found.turns)
                    result.violations += _judge(target, known, said, found, final)
        except Damaged as error:
            result.violations.append(f"{target} is damaged: {error}")
    return result


def _judge(target: str, known: History, said: History, found: Found, final: Found) -> Iterator[str]:
    """`known` was said before the copy was begun, `said` is everything."""
    judged = History()
    session = found.session
    judged.acked[session] = known.acked.get(session, {})
    judged.planned[session] = said.planned.get(session, {})
    where = f"{target}, {session}"
    yield from (f"{where}: {text}" for text in judge(judged, found).violations)
    prefix = final.turns[: len(found.turns)]
    if [turn.link for turn in found.turns] != [turn.link for turn in prefix]:
        yield f"{where}: not a prefix of what the store has"


def _wait_for_an_answer(listener: Listener) -> None:
    for _ in range(int(FIRST_ACK_WAIT_S / LISTEN_S)):
        if listener.so_far().acked:
            return
        threading.Event().wait(LISTEN_S)
    raise AssertionError("the writer was never answered")
