"""When commands of an event loop are planned: all that came in one round, and while a call is under
way. The line is scripted; what is asked here is the flusher's own doing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

from ledgerstone.commands import Command
from ledgerstone.commands.leases import ReleaseLease
from ledgerstone.engines.postgres.planned.flusher import AsyncFlusher
from ledgerstone.engines.postgres.planned.queue import PendingCommand


class Noting:
    """A line that notes what happens in which order, and answers a call when it is told to."""

    limit_s, strict = 30.0, True

    def __init__(self) -> None:
        self.waiting: deque[PendingCommand] = deque()
        self.ended: list[PendingCommand] = []
        self.story: list[str] = []
        self.go_on = asyncio.Event()

    def admit(self, job: PendingCommand) -> None:
        self.story.append(job.key[1])
        if job.key[1] == "refused":
            job.error, job.done = RuntimeError("refused"), True
            self.ended.append(job)
        else:
            self.waiting.append(job)

    def take(self) -> list[PendingCommand]:
        group, self.waiting = list(self.waiting), deque()
        return group

    async def call(self, group: Sequence[PendingCommand]) -> Any:
        self.story.append(f"call of {len(group)}")
        await self.go_on.wait()
        return True

    def settle(self, group: Sequence[PendingCommand], judged: Any, *, unsure: bool = False) -> None:
        assert judged is True
        for job in group:
            job.answer, job.done = job.key[1], True
            self.ended.append(job)
        self.story.append("answered")

    def withdraw(self, job: PendingCommand) -> bool:
        raise AssertionError("nothing is overdue")


def command(session: str) -> Command[Any]:
    return ReleaseLease(tenant="default", session=session, owner="o", token="t", fence=1)


def test_what_comes_in_one_round_is_one_group() -> None:
    async def story() -> list[str]:
        line = Noting()
        flusher = AsyncFlusher(line, None)  # type: ignore[arg-type]
        line.go_on.set()
        begun = [flusher.start(command(name)) for name in ("a", "b", "c")]
        assert line.story == [], "planned together, not one by one"
        assert await asyncio.gather(*begun) == ["a", "b", "c"]
        return line.story

    assert asyncio.run(story()) == ["a", "b", "c", "call of 3", "answered"]


def test_what_comes_during_a_call_is_planned_before_it_answers() -> None:
    async def story() -> list[str]:
        line = Noting()
        flusher = AsyncFlusher(line, None)  # type: ignore[arg-type]
        first = flusher.start(command("a"))
        await asyncio.sleep(0)
        later = [flusher.start(command(name)) for name in ("b", "c")]
        for _ in range(3):
            await asyncio.sleep(0)
        line.story.append("told to go on")
        line.go_on.set()
        assert await asyncio.gather(first, *later) == ["a", "b", "c"]
        return line.story

    told = ["a", "call of 1", "b", "c", "told to go on", "answered", "call of 2", "answered"]
    assert asyncio.run(story()) == told


def test_what_is_refused_while_planning_is_told_at_once() -> None:
    async def story() -> list[str]:
        line = Noting()
        flusher = AsyncFlusher(line, None)  # type: ignore[arg-type]
        first = flusher.start(command("a"))
        await asyncio.sleep(0)
        refused = flusher.start(command("refused"))
        found = await asyncio.wait_for(asyncio.gather(refused, return_exceptions=True), 5)
        assert isinstance(found[0], RuntimeError)
        assert not first.done()
        line.go_on.set()
        await first
        again = flusher.start(command("refused"))
        await asyncio.wait_for(asyncio.gather(again, return_exceptions=True), 5)
        return line.story

    assert asyncio.run(story()) == ["a", "call of 1", "refused", "answered", "refused"]
