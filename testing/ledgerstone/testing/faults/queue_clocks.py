"""A queue while the clocks jump: an item may come late, but never twice and never not at all.

The calls come one after the other, from several handles whose clocks differ by hours. So it is
known at each moment which grant of a session was the last one and which claim has a batch, and
nobody else may ever be told that it is his.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone.clock import US_PER_S
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.leases import TakeLease
from ledgerstone.commands.nodes import ListNodes
from ledgerstone.commands.work import (
    AbandonClaim,
    ClaimWork,
    Completion,
    EnqueueWork,
    FailClaim,
    ListDead,
    ListWork,
    RenewClaim,
    ReplayWork,
    TakeWork,
)
from ledgerstone.errors import ClaimLost, Fenced, LeaseExpired
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Lease
from ledgerstone.records.work import QUEUE_DEFAULT, Claim
from ledgerstone.rules.chain import turn_hash
from ledgerstone.testing.faults.clocks import HOUR_S, SESSIONS, Handle, JumpingClock
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.scripts import batch

OFFSETS_S = (0, 0, HOUR_S, -24 * HOUR_S, 70, -70)
"""How wrong a clock may be after a jump; it comes back to the truth now and then."""

PASSING_S = 300
JUMP_SHARE = 0.1
FREEZE_SHARE = 0.3
TTL_US = 60 * US_PER_S
ALL = 1_000_000
ATTEMPTS = 4
REMEMBERED = 12
QUEUED_MAX = 8
WORKERS = 4
FAR_S = 10_000 * 24 * HOUR_S
"""After the walk the clocks are beyond every moment that anybody ever wrote down."""


class Grip(msgspec.Struct, frozen=True):
    """A lease that was granted, and a claim under it."""

    lease: Lease
    claim: Claim | None = None


class QueueWalk:
    """A random walk of several workers through a few queues, with what must hold."""

    def __init__(self, handles: list[Handle], seed: int) -> None:
        self._handles = handles
        self._random = Random(seed)
        self._fences = dict.fromkeys(SESSIONS, 0)
        self._tokens: dict[str, str] = dict.fromkeys(SESSIONS, "")
        self._owners: dict[str, tuple[str, int]] = {}
        self._open: dict[str, set[str]] = {session: set() for session in SESSIONS}
        self._put: set[str] = set()
        self._done: set[str] = set()
        self._grips: list[Grip] = []
        self._offsets: dict[int, int] = {}
        self._count = 0
        self.refused = 0
        for session in SESSIONS:
            handles[0].backend.write(commit_of(session, "first", "x"))

    @property
    def done(self) -> int:
        return len(self._done)

    def steps(self, count: int) -> Iterator[str]:
        """So many calls; a sentence for each that should not have been answered like that."""
        actions: list[Callable[[Backend], Iterator[str]]] = [
            *(self._take,) * 4, *(self._complete,) * 4, self._enqueue, self._enqueue,
            self._claim, self._lease, self._renew, self._abandon, self._fail, self._replay,
        ]  # fmt: skip
        for _ in range(count):
            self._count += 1
            handle = self._random.choice(self._handles)
            if self._random.random() < JUMP_SHARE:
                self._disturb(handle.clock)
            action = self._random.choice(actions)
            yield from (f"call {self._count}: {text}" for text in action(handle.backend))

    def ending(self) -> Iterator[str]:
        """Work everything off, and look for what is missing or there twice."""
        handle = self._handles[0]
        handle.clock.frozen = False
        handle.clock.jump(FAR_S)
        while True:
            self._count += 1
            found = list(self._take(handle.backend))
            if self._taken is None:
                break
            yield from (*found, *self._completed(handle.backend, self._taken, release=True))
        yield from self._accounts(handle.backend)

    def _accounts(self, backend: Backend) -> Iterator[str]:
        committed: list[str] = []
        for session in SESSIONS:
            of: dict[str, Any] = {"tenant": TENANT, "session": session}
            nodes, queued = backend.read([ListNodes(limit=ALL, **of), ListWork(**of)])
            committed += [node.body for node in nodes if node.body != "x"]
            yield from (f"{session}: {one.id} is left" for one in queued)
        dead = {one.id for one in backend.read([ListDead(tenant=TENANT, limit=ALL)])[0].items}
        yield from (f"lost: {item}" for item in self._put - set(committed) - dead)
        yield from (f"unexpected: {item}" for item in set(committed) - self._put)
        yield from (f"done and dead: {item}" for item in set(committed) & dead)
        for item in set(committed):
            if (times := committed.count(item)) > 1:
                yield f"duplicated: {item} was committed {times} times"

    def _disturb(self, clock: JumpingClock) -> None:
        if self._random.random() < FREEZE_SHARE:
            clock.frozen = not clock.frozen
            return
        offset_s = self._random.choice(OFFSETS_S)
        clock.jump(PASSING_S + offset_s - self._offsets.get(id(clock), 0))
        self._offsets[id(clock)] = offset_s

    # --- what is granted

    def _enqueue(self, backend: Backend) -> Iterator[str]:
        session, item = self._random.choice(SESSIONS), f"i{self._count}"
        if len(self._open[session]) >= QUEUED_MAX:
            return
        delay_us = self._random.choice((0, 0, 0, 30)) * US_PER_S
        made = batch(session, item, delay_us=delay_us, max_attempts=ATTEMPTS)
        backend.write(EnqueueWork(tenant=TENANT, batch=made))
        self._put.add(item)
        self._open[session].add(item)
        yield from ()

    def _take(self, backend: Backend) -> Iterator[str]:
        self._taken: Grip | None = None
        id = f"c{self._count}"
        taken = backend.write(
            TakeWork(
                tenant=TENANT,
                queue=QUEUE_DEFAULT,
                owner=self._owner(),
                lease_token=id,
                claim=id,
                claim_token=id,
                ttl_us=TTL_US,
            )
        )
        if taken is None:
            return
        yield from self._granted(taken.lease)
        yield from self._given(taken.claim)
        self._taken = Grip(taken.lease, taken.claim)
        self._keep(self._taken)

    def _lease(self, backend: Backend) -> Iterator[str]:
        session, token = self._random.choice(SESSIONS), f"l{self._count}"
        lease = backend.write(
            TakeLease(
                tenant=TENANT, session=session, owner=self._owner(), token=token, ttl_us=TTL_US
            )
        )
        if lease is None:
            return
        if lease.token == token:
            yield from self._granted(lease)
        self._keep(Grip(lease))

    def _claim(self, backend: Backend) -> Iterator[str]:
        grip = self._drawn()
        if grip is None:
            return
        lease, id = grip.lease, f"c{self._count}"
        claim = self._tried(
            backend,
            ClaimWork(
                tenant=TENANT,
                session=lease.session,
                claim=id,
                owner=lease.owner,
                token=id,
                ttl_us=TTL_US,
                guard=Guard(lease.fence, lease.token),
            ),
        )
        if claim is None:
            return
        yield from self._current(lease, "claim")
        yield from self._given(claim)
        self._keep(Grip(lease, claim))

    def _granted(self, lease: Lease) -> Iterator[str]:
        if lease.fence <= self._fences[lease.session]:
            yield f"{lease.session}: fence {lease.fence} after {self._fences[lease.session]}"
        self._fences[lease.session], self._tokens[lease.session] = lease.fence, lease.token

    def _given(self, claim: Claim) -> Iterator[str]:
        for one in claim.batches:
            if one.id in self._done:
                yield f"{one.id} was given away after it was done"
            owner = self._owners.get(one.id)
            if owner is not None and owner[1] >= claim.fence:
                yield f"double holder: {claim.id} and {owner[0]} have {one.id} under {owner[1]}"
            self._owners[one.id] = (claim.id, claim.fence)

    # --- what is done with it

    def _complete(self, backend: Backend) -> Iterator[str]:
        grip = self._drawn(claimed=True)
        if grip is not None:
            yield from self._completed(backend, grip, release=self._random.random() < 0.7)

    def _completed(self, backend: Backend, grip: Grip, *, release: bool) -> Iterator[str]:
        lease, claim = grip.lease, grip.claim
        assert claim is not None
        items = [one.id for one in claim.batches]
        guard = Guard(lease.fence, lease.token)
        command = commit_of(lease.session, f"turn {self._count}", *items, guard=guard)
        command = replace(command, complete=(Completion(claim.id, claim.token),), release=release)
        if self._tried(backend, replace(command, hash=turn_hash(command))) is None:
            return
        yield from self._current(lease, "completion")
        yield from self._owns(claim, "completion")
        for item in items:
            if item in self._done:
                yield f"duplicated: {item} was completed twice"
            self._done.add(item)
            self._open[lease.session].discard(item)
            self._owners.pop(item, None)

    def _renew(self, backend: Backend) -> Iterator[str]:
        command = self._of_a_claim(RenewClaim, ttl_us=TTL_US)
        if command is not None and self._tried(backend, command[1]) is not None:
            yield from self._owns(command[0], "renewal")

    def _abandon(self, backend: Backend) -> Iterator[str]:
        command = self._of_a_claim(AbandonClaim)
        if command is not None and self._tried(backend, command[1]):
            yield from self._owns(command[0], "handing back")
            self._free(command[0])

    def _fail(self, backend: Backend) -> Iterator[str]:
        command = self._of_a_claim(FailClaim, error="no luck")
        if command is not None and self._tried(backend, command[1]) is not None:
            yield from self._owns(command[0], "failure")
            self._free(command[0])

    def _replay(self, backend: Backend) -> Iterator[str]:
        dead = backend.read([ListDead(tenant=TENANT)])[0].items
        if dead:
            chosen = self._random.choice(dead).id
            if chosen in self._done:
                yield f"{chosen} is dead and done"
            backend.write(ReplayWork(tenant=TENANT, batch=chosen))
            self._owners.pop(chosen, None)

    # --- small things

    def _of_a_claim(self, kind: type[Any], **rest: Any) -> tuple[Claim, Command[Any]] | None:
        grip = self._drawn(claimed=True)
        if grip is None or grip.claim is None:
            return None
        claim = grip.claim
        place = {"tenant": TENANT, "session": claim.session}
        return claim, kind(claim=claim.id, token=claim.token, **place, **rest)

    def _owns(self, claim: Claim, what: str) -> Iterator[str]:
        for one in claim.batches:
            owner = self._owners.get(one.id)
            if owner != (claim.id, self._fences[claim.session]):
                yield f"a {what} by {claim.id}, but {owner} has {one.id}"

    def _current(self, lease: Lease, what: str) -> Iterator[str]:
        current = (self._fences[lease.session], self._tokens[lease.session])
        if (lease.fence, lease.token) != current:
            yield f"{lease.session}: a {what} under fence {lease.fence}, current is {current[0]}"

    def _free(self, claim: Claim) -> None:
        for one in claim.batches:
            self._owners.pop(one.id, None)

    def _owner(self) -> str:
        return f"worker {self._random.randrange(WORKERS)}"

    def _drawn(self, *, claimed: bool = False) -> Grip | None:
        fitting = [one for one in self._grips if one.claim is not None or not claimed]
        if fitting and self._random.random() < 0.5:
            return fitting[-1]
        return self._random.choice(fitting) if fitting else None

    def _keep(self, grip: Grip) -> None:
        self._grips = [*self._grips, grip][-REMEMBERED:]

    def _tried(self, backend: Backend, command: Command[Any]) -> Any:
        try:
            return backend.write(command)
        except (Fenced, LeaseExpired, ClaimLost):
            self.refused += 1
            return None
