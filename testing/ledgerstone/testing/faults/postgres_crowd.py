"""Many sessions in several processes: nobody meets an error, nobody is in a deadlock.

A play for `Race`. With `conflicts`, one commit of ten goes to a session that everybody writes to,
on the revision that was seen there last: whoever comes second is told so, and nobody else is.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import msgspec

from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Guard
from ledgerstone.commands.sessions import CreateSession, GetHead
from ledgerstone.errors import LedgerstoneError, RevisionMoved
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Session
from ledgerstone.testing.faults.commits import TENANT, commit_of

SESSIONS = 64
HOT = 6
CONFLICT_SHARE = 0.1


class Did(msgspec.Struct, frozen=True):
    """What one process did: turns by session, refusals, and errors that nobody should meet."""

    turns: dict[str, int]
    moved: int
    errors: list[str]


class Writer:
    """One session of its own, and now and then one of everybody's."""

    def __init__(self, backend: Backend, name: str, seed: int, *, conflicts: bool) -> None:
        self._backend = backend
        self._name = name
        self._random = Random(f"{seed}/{name}")
        self._share = CONFLICT_SHARE if conflicts else 0.0
        self.turns: dict[str, int] = {}
        self.moved = 0
        self.errors: list[str] = []

    async def prepare(self) -> None:
        made = CreateSession(tenant=TENANT, session=Session(id=self._name), ensure=True)
        await self._backend.awrite(made)

    async def work(self, ends_s: float) -> None:
        count = 0
        while monotonic_s() < ends_s:
            count += 1
            try:
                await self._commit(count)
            except RevisionMoved:
                self.moved += 1
            except LedgerstoneError as error:
                self.errors.append(f"{self._name}: {type(error).__name__}: {error}")

    async def _commit(self, count: int) -> None:
        session, guard = self._name, Guard()
        if self._random.random() < self._share:
            session = f"hot {self._random.randrange(HOT)}"
            head = (await self._backend.aread([GetHead(tenant=TENANT, id=session)]))[0]
            guard = Guard(revision=0 if head is None else head.revision)
        hot = session != self._name
        command = commit_of(session, f"{self._name}-{count}", "one", "two", guard=guard, create=hot)
        await self._backend.awrite(command)
        self.turns[session] = self.turns.get(session, 0) + 1


def busy(
    seconds: float, conflicts: bool, seed: int, backend: Backend, number: int, racer: int
) -> Did:
    """One process: all its sessions commit until the time is over."""
    writers = [
        Writer(backend, f"{number}/{racer}/{n}", seed, conflicts=conflicts) for n in range(SESSIONS)
    ]

    async def main() -> None:
        await asyncio.gather(*(writer.prepare() for writer in writers))
        ends_s = monotonic_s() + seconds
        await asyncio.gather(*(writer.work(ends_s) for writer in writers))

    asyncio.run(main())
    turns: dict[str, int] = {}
    for writer in writers:
        for session, count in writer.turns.items():
            turns[session] = turns.get(session, 0) + count
    errors = [text for writer in writers for text in writer.errors]
    return Did(turns, sum(writer.moved for writer in writers), errors)


def next_revision(backend: Backend, number: int, racer: int) -> Any:
    """Everybody has seen the same revision, and commits on it the planned way."""
    guard = Guard(revision=number)
    command = commit_of("revisions", f"{number}/{racer}", "mine", guard=guard, create=number == 0)
    return backend.write(command)


def play_of(seconds: float, seed: int, *, conflicts: bool) -> Any:
    """For `Race.run`."""
    return partial(busy, seconds, conflicts, seed)
