"""Threads that send for each other: never two calls at once, and nobody is left waiting.

The line is the real one; only its call is scripted, so that it can be slow, fail, or outlast the
deadlines of those who wait for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from ledgerstone.clock import SystemClock, monotonic_s
from ledgerstone.commands import Command, Query
from ledgerstone.commands.leases import ReleaseLease
from ledgerstone.engines.postgres.drivers.clock import ServerClock
from ledgerstone.engines.postgres.planned.flusher import BlockingFlusher
from ledgerstone.engines.postgres.planned.queue import CommandQueue, PendingCommand
from ledgerstone.errors import OutcomeUnknown, Timeout

THREADS, SESSIONS, COMMANDS = 12, 4, 25
LIMIT_S = 0.03
HANGS_S = 60.0


class ScriptedQueue(CommandQueue):
    """Plans nothing; a call takes a while, and some of them fail."""

    def __init__(self, seed: int) -> None:
        nowhere: Any = None
        super().__init__(nowhere, LIMIT_S, ServerClock(SystemClock()), rls=False)
        self.random = Random(seed)
        self.calls = self.groups = 0
        self.faults: list[str] = []

    def _prepare(self, job: PendingCommand) -> bool:
        if self.random.random() < 0.1:
            return False
        self.waiting.append(job)
        return True

    def take(self) -> list[PendingCommand]:
        group = list(self.waiting)[:3]
        for job in group:
            self.waiting.remove(job)
        return group

    async def call(self, group: Sequence[PendingCommand]) -> Any:
        self.calls += 1
        self.groups += len(group)
        if self.calls != 1:
            self.faults.append("two calls at once")
        if len({job.key for job in group}) != len(group):
            self.faults.append("a session twice in one call")
        time.sleep(self.random.choice((0, 0.0005, 0.004, LIMIT_S * 1.5)))
        self.calls -= 1
        if self.random.random() < 0.2:
            raise ConnectionError
        return True

    def settle(self, group: Sequence[PendingCommand], judged: Any, *, unsure: bool = False) -> None:
        for job in group:
            if judged is None:
                job.unsure = unsure
                self._finish(job, slow=True)
            else:
                job.answer = job.command
                self._finish(job)


class Slow:
    """The interactive way, which always works."""

    async def write(
        self, command: Command[Any], ends_s: float | None = None, *, unsure: bool = False
    ) -> Any:
        return command

    async def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        raise AssertionError("nothing here asks")


class Impatient(BlockingFlusher):
    """A sender whose own time is over counts as gone, though its call is under way."""

    def _is_free(self) -> bool:
        sender = self._sender
        return sender is None or sender.done or sender.ends_s <= monotonic_s()


def crowd(kind: type[BlockingFlusher], seed: int) -> list[str]:
    line = ScriptedQueue(seed)
    flusher, faults = kind(line, Slow()), line.faults
    answered = 0

    def live(n: int) -> None:
        nonlocal answered
        for place in range(COMMANDS):
            command = ReleaseLease(
                tenant="t", session=f"s{(n + place) % SESSIONS}", owner="o", token=str(n), fence=1
            )
            try:
                answer = flusher.write(command)
                answered += 1
                if answer is not command:
                    faults.append(f"another's answer: {answer}")
            except (Timeout, OutcomeUnknown):
                pass
            except Exception as error:
                faults.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=live, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    ends_s = monotonic_s() + HANGS_S
    for thread in threads:
        thread.join(max(ends_s - monotonic_s(), 0))
    faults += ["a thread waits for ever" for thread in threads if thread.is_alive()]
    if not faults:
        assert answered > COMMANDS, "hardly anything was answered"
        assert not line.waiting
        assert not line._of
    return faults


@pytest.mark.parametrize("round_", range(3))
def test_one_sends_at_a_time_and_nobody_is_left(round_: int, seed: int) -> None:
    print(f"seed {seed}, round {round_}")
    assert crowd(BlockingFlusher, seed + round_) == []


def test_control_a_sender_given_up_during_its_call(seed: int) -> None:
    print(f"seed {seed}")
    assert any(crowd(Impatient, seed + n) for n in range(5))
