"""Leases while the clocks jump: whoever holds one may be wrong about it, the fence is not.

The calls come one after the other, from several handles whose clocks differ by hours. So it is
known at each moment which grant was the last one, and no other may ever be accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from ledgerstone.commands import Command, Guard
from ledgerstone.commands.leases import BreakLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.errors import Fenced, LeaseExpired, LeaseHeld
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Lease
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.histories import read_back

START_US = 1_700_000_000_000_000
TICK_US = 1_000
HOUR_S = 3_600
JUMPS_S = (HOUR_S, -24 * HOUR_S, 70, -70, 1, -1)
TTL_US = 60_000_000
JUMP_SHARE = 0.05
SESSIONS = ("a", "b", "c")
WORKERS = 4
REMEMBERED = 4


class JumpingClock:
    """A clock that goes on a little with every look, jumps when told and can be frozen."""

    def __init__(self, start_us: int = START_US) -> None:
        self._now_us = start_us
        self.frozen = False

    def now_us(self) -> int:
        if not self.frozen:
            self._now_us += TICK_US
        return self._now_us

    def jump(self, seconds: float) -> None:
        """Forward, or back when negative."""
        self._now_us += round(seconds * 1_000_000)


class Handle(msgspec.Struct):
    """One way to the store, and the clock by which it judges."""

    backend: Backend
    clock: JumpingClock


class Walk:
    """A random walk of several workers through a few sessions, with what must hold."""

    def __init__(self, handles: list[Handle], seed: int) -> None:
        self._handles = handles
        self._random = Random(seed)
        self._fences = dict.fromkeys(SESSIONS, 0)
        self._tokens: dict[str, str | None] = dict.fromkeys(SESSIONS)
        self._places = dict.fromkeys(SESSIONS, (0, 0))
        self._leases: list[Lease] = []
        self._count = 0
        self.commits = 0
        self.refused = 0
        for session in SESSIONS:
            handles[0].backend.write(commit_of(session, "first", "x"))
            self._places[session] = (1, 1)

    def steps(self, count: int) -> Iterator[str]:
        """So many calls; a sentence for each that should not have been answered like that."""
        for _ in range(count):
            self._count += 1
            handle = self._random.choice(self._handles)
            if self._random.random() < JUMP_SHARE:
                self._disturb(handle.clock)
            action = self._random.choice(
                (self._take, self._take, self._commit, self._commit, self._renew, self._end)
            )
            yield from (f"call {self._count}: {text}" for text in action(handle.backend))

    def ending(self) -> Iterator[str]:
        """What is wrong with the store after the walk."""
        for session in SESSIONS:
            found = read_back(self._handles[0].backend, TENANT, session)
            yield from (f"{session}: {one.kind} {one.detail}" for one in found.defects)
            if found.revision != self._places[session][0]:
                yield f"{session} is at {found.revision}, not at {self._places[session][0]}"

    def _disturb(self, clock: JumpingClock) -> None:
        if self._random.random() < 0.2:
            clock.frozen = not clock.frozen
        else:
            clock.jump(self._random.choice(JUMPS_S))

    def _take(self, backend: Backend) -> Iterator[str]:
        session, token = self._random.choice(SESSIONS), f"token {self._count}"
        owner = f"worker {self._random.randrange(WORKERS)}"
        lease = backend.write(
            TakeLease(
                tenant=TENANT,
                session=session,
                owner=owner,
                token=token,
                ttl_us=TTL_US,
                reenter=self._random.random() < 0.5,
            )
        )
        if lease is None:
            return
        if lease.token == token:
            if lease.fence <= self._fences[session]:
                yield f"{session}: fence {lease.fence} after {self._fences[session]}"
            self._fences[session], self._tokens[session] = lease.fence, token
        elif (lease.fence, lease.token) != (self._fences[session], self._tokens[session]):
            yield f"{session}: an old grant was extended: {lease.fence}"
        self._leases = [*self._leases, lease][-REMEMBERED * len(SESSIONS) :]

    def _commit(self, backend: Backend) -> Iterator[str]:
        if not self._leases:
            return
        lease = self._random.choice(self._leases)
        guard = Guard(lease.fence, lease.token)
        command = commit_of(lease.session, f"turn {self._count}", "x", "y", guard=guard)
        answer = self._tried(backend, command)
        if answer is None:
            return
        self.commits += 1
        yield from self._stale(lease, "commit")
        revision, last = self._places[lease.session]
        if answer.revision != revision + 1:
            yield f"{lease.session}: revision {answer.revision} after {revision}"
        for place in answer.placed:
            if (place.ord, place.seq) != (last + 1, last + 1):
                yield f"{lease.session}: position {place.ord}, {place.seq} after {last}"
            last = place.ord
        self._places[lease.session] = (answer.revision, last)

    def _renew(self, backend: Backend) -> Iterator[str]:
        if not self._leases:
            return
        lease = self._random.choice(self._leases)
        command = RenewLease(
            tenant=TENANT,
            session=lease.session,
            owner=lease.owner,
            token=lease.token,
            fence=lease.fence,
            ttl_us=TTL_US,
        )
        if self._tried(backend, command) is not None:
            yield from self._stale(lease, "renewal")

    def _end(self, backend: Backend) -> Iterator[str]:
        """Give one back, or let an operator break it."""
        if not self._leases:
            return
        lease = self._random.choice(self._leases)
        if self._random.random() < 0.3:
            command = BreakLease(tenant=TENANT, session=lease.session, by="me", reason="chance")
            if backend.write(command):
                self._fences[lease.session] += 1
                self._tokens[lease.session] = None
            return
        released = backend.write(
            ReleaseLease(
                tenant=TENANT,
                session=lease.session,
                owner=lease.owner,
                token=lease.token,
                fence=lease.fence,
            )
        )
        if released:
            yield from self._stale(lease, "release")
            self._tokens[lease.session] = None

    def _stale(self, lease: Lease, what: str) -> Iterator[str]:
        current = (self._fences[lease.session], self._tokens[lease.session])
        if (lease.fence, lease.token) != current:
            yield f"{lease.session}: a {what} under fence {lease.fence}, current is {current[0]}"

    def _tried(self, backend: Backend, command: Command[Any]) -> Any:
        try:
            return backend.write(command)
        except (Fenced, LeaseExpired, LeaseHeld):
            self.refused += 1
            return None
