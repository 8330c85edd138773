"""Workers that use leases and queues at random, and write down each call and its answer.

Half of the leases are so short that they run out between two calls; every worker also tries what
it held before and lost. The histories are judged by `queue_linear`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone.clock import SystemClock, monotonic_s
from ledgerstone.commands import Command, Guard, Query
from ledgerstone.commands.leases import BreakLease, GetLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.work import (
    AbandonClaim,
    ClaimWork,
    Completion,
    EnqueueWork,
    RenewClaim,
    TakeWork,
)
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Lease
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.records.work import Claim, Taken
from ledgerstone.rules.chain import turn_hash
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.queue_linear import QueueOp
from ledgerstone.testing.faults.scripts import batch

LONG_US = 600_000_000
SHORT_US = (1, 4_000)
LONG_SHARE = 0.5
REMEMBERED = 3
BREAK_SHARE = 0.03
STAY_SHARE = 0.6
"""How often a worker goes on with what it got last."""

CALLS = {
    "take work": 5,
    "enqueue": 2,
    "claim": 5,
    "complete": 6,
    "abandon": 1,
    "renew claim": 1,
    "take": 2,
    "renew": 1,
    "release": 2,
    "commit": 1,
    "get": 1,
}
"""How often each is chosen."""

_clock = SystemClock()

Asked = Command[Any] | Query[Any]


class Grip(msgspec.Struct, frozen=True):
    """What a worker has, or had: a lease, and perhaps a claim under it."""

    lease: Lease
    claim: str = ""


class Worker:
    """One who calls; `held` is what it remembers of each session."""

    def __init__(self, name: str, sessions: list[str], seed: int) -> None:
        self._name = name
        self._sessions = sessions
        self._random = Random(f"{seed}/{name}")
        self._held: dict[str, list[Grip | None]] = {}
        self._session = self._random.choice(sessions)
        self._prefix = f"{name}/{seed}"
        self._count = 0

    def record(self, backend: Backend, calls: int) -> list[QueueOp]:
        """So many random calls, each with its answer and its times."""
        return [self._call(backend) for _ in range(calls)]

    def _call(self, backend: Backend) -> QueueOp:
        self._count += 1
        random, id = self._random, f"{self._prefix}/{self._count}"
        if random.random() > STAY_SHARE:
            self._session = random.choice(self._sessions)
        session = self._session
        held = self._held.get(session) or [None]
        grip = held[-1] if random.random() < STAY_SHARE else random.choice(held)
        call = random.choices(list(CALLS), list(CALLS.values()))[0]
        if random.random() < BREAK_SHARE:
            call = "break"
        op, asked = self._drawn(call, session, grip, id)
        op, answer = called(backend, op, asked)
        self._remember(session, op, grip, answer)
        return op

    def _remember(self, session: str, op: QueueOp, grip: Grip | None, answer: Any) -> None:
        if isinstance(answer, Taken):
            grip = Grip(answer.lease, op.claim)
        elif isinstance(answer, Lease) and op.call == "take":
            grip = Grip(answer)
        elif isinstance(answer, Claim) and op.call == "claim" and grip is not None:
            grip = Grip(grip.lease, op.claim)
        else:
            return
        self._held[session] = [*self._held.get(session, []), grip][-REMEMBERED:]

    def _drawn(self, call: str, session: str, grip: Grip | None, id: str) -> tuple[QueueOp, Asked]:
        random = self._random
        place: dict[str, Any] = {"tenant": TENANT, "session": session}
        ttl_us = LONG_US if random.random() < LONG_SHARE else random.randint(*SHORT_US)
        if call == "break":
            op = QueueOp(session=session, call="break")
            return op, BreakLease(by=self._name, reason="chance", **place)
        if call == "get":
            return QueueOp(session=session, call="get"), GetLease(**place)
        if call == "enqueue":
            op = QueueOp(session=session, call="enqueue", batch=id)
            made = batch(session, id, queue=session, max_attempts=None)
            return op, EnqueueWork(tenant=TENANT, batch=made)
        new: dict[str, Any] = {"owner": self._name, "token": id, "ttl_us": ttl_us}
        if call == "take":
            return QueueOp(session=session, call="take", **new), TakeLease(**new, **place)
        if call == "take work" or grip is None:
            op = QueueOp(session=session, call="take work", claim=id, **new)
            return op, TakeWork(
                tenant=TENANT,
                queue=session,
                owner=self._name,
                lease_token=id,
                claim=id,
                claim_token=id,
                ttl_us=ttl_us,
            )
        return self._under_a_lease(call, grip, id, ttl_us)

    def _under_a_lease(self, call: str, grip: Grip, id: str, ttl_us: int) -> tuple[QueueOp, Asked]:
        lease, claim = grip.lease, grip.claim or "none"
        place: dict[str, Any] = {"tenant": TENANT, "session": lease.session}
        held: dict[str, Any] = {"owner": lease.owner, "token": lease.token, "fence": lease.fence}
        guard = Guard(lease.fence, lease.token)
        op = QueueOp(session=lease.session, call=call, ttl_us=ttl_us, claim=claim, **held)
        if call == "claim":
            again = grip.claim if self._random.random() < 0.2 else ""
            asked = ClaimWork(
                claim=again or id,
                owner=lease.owner,
                token=again or id,
                ttl_us=ttl_us,
                guard=guard,
                **place,
            )
            return replace(op, claim=again or id), asked
        if call == "complete":
            release = self._random.random() < 0.5
            done = (Completion(claim, claim),)
            commit = replace(
                commit_of(lease.session, id, "x", guard=guard), complete=done, release=release
            )
            return replace(op, release=release), replace(commit, hash=turn_hash(commit))
        return op, _PLAIN[call](op, place, held, guard, id)


def _commit(op: QueueOp, place: Any, held: Any, guard: Guard, id: str) -> Asked:
    return commit_of(op.session, id, "x", guard=guard)


def _release(op: QueueOp, place: Any, held: Any, guard: Guard, id: str) -> Asked:
    return ReleaseLease(**held, **place)


def _renew(op: QueueOp, place: Any, held: Any, guard: Guard, id: str) -> Asked:
    return RenewLease(ttl_us=op.ttl_us, **held, **place)


def _abandon(op: QueueOp, place: Any, held: Any, guard: Guard, id: str) -> Asked:
    return AbandonClaim(claim=op.claim, token=op.claim, **place)


def _renew_claim(op: QueueOp, place: Any, held: Any, guard: Guard, id: str) -> Asked:
    return RenewClaim(claim=op.claim, token=op.claim, ttl_us=op.ttl_us, **place)


_PLAIN: dict[str, Callable[..., Asked]] = {
    "commit": _commit,
    "release": _release,
    "renew": _renew,
    "abandon": _abandon,
    "renew claim": _renew_claim,
}


def called(backend: Backend, op: QueueOp, asked: Asked) -> tuple[QueueOp, Any]:
    """The call with its answer and times; the store's time is asked outside of its own."""
    start_us, start_s = _clock.now_us(), monotonic_s()
    answer: Any = None
    result = "ok"
    try:
        answer = backend.read([asked])[0] if isinstance(asked, Query) else backend.write(asked)
    except LedgerstoneError as error:
        result = type(error).__name__
    end_s, end_us = monotonic_s(), _clock.now_us()
    if result == "ok" and (answer is None or answer is False):
        result = "no"
    op = replace(op, start_us=start_us, start_s=start_s, end_us=end_us, end_s=end_s, result=result)
    lease = answer.lease if isinstance(answer, Taken) else answer
    claim = answer.claim if isinstance(answer, Taken) else answer
    if isinstance(answer, TurnCommitted):
        op = replace(op, got_revision=answer.revision)
    if isinstance(lease, Lease):
        op = replace(
            op, got_token=lease.token, got_fence=lease.fence, got_expires_us=lease.expires_us
        )
    if isinstance(claim, Claim):
        op = replace(op, got_batches=tuple(one.id for one in claim.batches))
    return op, answer


def flips(history: list[QueueOp], random: Random, count: int) -> Iterator[list[QueueOp]]:
    """The history again and again, each time with one answer changed that decides something."""
    places = [n for n, op in enumerate(history) if op.result == "ok" and op.call in _LIES]
    for n in random.sample(places, min(count, len(places))):
        yield [*history[:n], _LIES[history[n].call](history[n]), *history[n + 1 :]]


_LIES: dict[str, Callable[[QueueOp], QueueOp]] = {
    "take work": lambda op: replace(op, got_fence=op.got_fence + 1),
    "claim": lambda op: replace(op, got_batches=("another",)),
    "complete": lambda op: replace(op, got_revision=op.got_revision + 1),
}


def play(
    names: list[str], calls: int, seed: int, backend: Backend, number: int, racer: int
) -> list[QueueOp]:
    """One round of a `Race`."""
    return Worker(f"p{racer}", names, seed * 1_000_003 + number).record(backend, calls)
