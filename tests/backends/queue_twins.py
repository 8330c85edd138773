"""The same queue twice: on PostgreSQL, and on SQLite, whose handlers we trust."""

from __future__ import annotations

import random
from typing import Any

from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command, Guard, Query
from ledgerstone.commands.leases import BreakLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.sessions import CreateSession, DeleteSession, RestoreSession
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.work import (
    AbandonClaim,
    CancelWork,
    ClaimWork,
    Completion,
    EnqueueWork,
    FailClaim,
    ListDead,
    ListWork,
    NewBatch,
    PeekWork,
    RenewClaim,
    TakeWork,
)
from ledgerstone.engines.postgres.backend import PostgresBackend
from ledgerstone.engines.sqlite.backend import SqliteBackend
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.leases import Lease
from ledgerstone.records.sessions import Session
from ledgerstone.records.work import Claim, Taken

TENANT = "t"
SESSIONS = [f"s{n}" for n in range(7)]
QUEUES = ("default", "other")
SECOND_US = 1_000_000


class Twins:
    """The same commands at the same time on PostgreSQL and on SQLite, whose handlers we trust."""

    def __init__(self, postgres: PostgresBackend, sqlite: SqliteBackend) -> None:
        self.postgres, self.sqlite = postgres, sqlite
        for session in SESSIONS:
            self.write(CreateSession(tenant=TENANT, session=Session(id=session)))

    def write(self, command: Command[Any]) -> Any:
        """The answer of both, or the error of both as text."""
        answers = [outcome(one, command) for one in (self.postgres, self.sqlite)]
        assert answers[0] == answers[1], command
        return answers[0]

    def compare(self) -> None:
        """Everything that waits, in order; who is due first in each line; what was given up."""
        questions: list[Query[Any]] = [ListDead(tenant=TENANT, limit=500)]
        questions += [PeekWork(tenant=TENANT, queue=queue) for queue in QUEUES]
        questions += [ListWork(tenant=TENANT, session=session) for session in SESSIONS]
        assert self.postgres.read(questions) == self.sqlite.read(questions)


def outcome(backend: PostgresBackend | SqliteBackend, command: Command[Any]) -> Any:
    try:
        return backend.write(command)
    except LedgerstoneError as error:
        return f"{type(error).__name__}: {error}"


class Player:
    """Makes commands at random out of what earlier ones were answered."""

    def __init__(self, twins: Twins, clock: ManualClock, seed: int) -> None:
        self.twins, self.clock = twins, clock
        self.random = random.Random(seed)
        self.leases: list[Lease] = []
        self.claims: list[Claim] = []
        self.made = 0

    def name(self, what: str) -> str:
        self.made += 1
        return f"{what}-{self.made}"

    def step(self) -> None:
        moves = (
            [self.enqueue] * 6 + [self.take] * 4 + [self.claim] * 3 + [self.complete] * 3
            + [self.renew, self.abandon, self.fail, self.cancel, self.release, self.hold]
            + [self.keep, self.break_lease, self.delete, self.wait, self.wait]
        )  # fmt: skip
        self.random.choice(moves)()

    def enqueue(self) -> None:
        pick = self.random.choice
        self.twins.write(EnqueueWork(tenant=TENANT, batch=self.batch(pick(SESSIONS))))

    def batch(self, session: str) -> NewBatch:
        pick = self.random.choice
        return NewBatch(
            session=session,
            id=self.name("batch") if self.random.random() < 0.95 else "batch-1",
            payloads=b'["x"]',
            source_key=pick([None, None, "one", "two"]),
            queue=pick(["default", "default", "other"]),
            delivery=pick(["after_current_turn_commit", "earliest_safe_boundary"]),
            slot=pick(["exclusive", "join", "join"]),
            merge=pick(["never", "payload", "group:a"]),
            priority=pick([0, 128, 128, 200]),
            delay_us=pick([0, 0, 0, 5 * SECOND_US]),
            max_attempts=pick([None, 1, 2, 5]),
        )

    def take(self) -> None:
        lease_token, claim, claim_token = map(self.name, ("lease", "claim", "proof"))
        taken = self.twins.write(
            TakeWork(
                tenant=TENANT,
                queue=self.random.choice(["default", "default", "other"]),
                owner=self.random.choice(["ann", "bob"]),
                lease_token=lease_token,
                claim=claim,
                claim_token=claim_token,
                ttl_us=self.random.choice([10, 60]) * SECOND_US,
                max_batches=self.random.choice([1, 1, 3, 10]),
            )
        )
        if isinstance(taken, Taken):
            self.leases.append(taken.lease)
            self.claims.append(taken.claim)

    def hold(self) -> None:
        lease = self.twins.write(
            TakeLease(
                tenant=TENANT,
                session=self.random.choice(SESSIONS),
                owner="ann",
                token=self.name("lease"),
                ttl_us=10 * SECOND_US,
                reenter=self.random.random() < 0.5,
            )
        )
        if isinstance(lease, Lease):
            self.leases.append(lease)

    def _lease(self) -> Lease | None:
        """Mostly one of the last, which may live still."""
        return self.random.choice(self.leases[-6:]) if self.leases else None

    def _claim(self) -> dict[str, Any] | None:
        if not self.claims:
            return None
        claim = self.random.choice(self.claims[-6:])
        return {
            "tenant": TENANT, "session": claim.session, "claim": claim.id, "token": claim.token,
        }  # fmt: skip

    def claim(self) -> None:
        lease = self._lease()
        if lease is None:
            return
        again = bool(self.claims) and self.random.random() < 0.1
        claim = self.twins.write(
            ClaimWork(
                tenant=TENANT,
                session=lease.session,
                claim=self.claims[-1].id if again else self.name("claim"),
                owner=lease.owner,
                token=self.name("proof"),
                ttl_us=30 * SECOND_US,
                boundary=self.random.choice(["idle", "idle", "active_turn_checkpoint"]),
                max_batches=self.random.choice([1, 1, 4]),
                queue=self.random.choice([None, None, "default", "other"]),
                guard=Guard(lease.fence, lease.token),
            )
        )
        if isinstance(claim, Claim):
            self.claims.append(claim)

    def complete(self) -> None:
        if not self.claims:
            return
        claim = self.random.choice(self.claims[-6:])
        lease = next((one for one in reversed(self.leases) if one.session == claim.session), None)
        more = self.random.random() < 0.2
        self.twins.write(
            CommitTurn(
                tenant=TENANT,
                session=claim.session,
                turn=self.name("turn"),
                kind="turn",
                hash=b"h" * 32,
                guard=Guard() if lease is None else Guard(lease.fence, lease.token),
                complete=(Completion(claim.id, claim.token),),
                enqueue=(self.batch(claim.session),) if more else (),
                release=lease is not None and self.random.random() < 0.6,
            )
        )

    def renew(self) -> None:
        claim = self._claim()
        if claim is not None:
            self.twins.write(RenewClaim(ttl_us=90 * SECOND_US, **claim))

    def abandon(self) -> None:
        claim = self._claim()
        if claim is not None:
            delay_us = self.random.choice([0, 3 * SECOND_US])
            self.twins.write(AbandonClaim(delay_us=delay_us, **claim))

    def fail(self) -> None:
        claim = self._claim()
        if claim is not None:
            self.twins.write(FailClaim(error="no", bury=self.random.random() < 0.1, **claim))

    def cancel(self) -> None:
        batch = f"batch-{self.random.randint(1, self.made + 1)}"
        for session in SESSIONS:
            self.twins.write(CancelWork(tenant=TENANT, session=session, batch=batch))

    def release(self) -> None:
        lease = self._lease()
        if lease is not None:
            self.twins.write(ReleaseLease(**held(lease)))

    def keep(self) -> None:
        lease = self._lease()
        if lease is not None:
            self.twins.write(RenewLease(ttl_us=60 * SECOND_US, **held(lease)))

    def break_lease(self) -> None:
        session = self.random.choice(SESSIONS)
        self.twins.write(BreakLease(tenant=TENANT, session=session, by="ann", reason="test"))

    def delete(self) -> None:
        """And back again, mostly: who takes meanwhile must step over it."""
        session = self.random.choice(SESSIONS)
        self.twins.write(DeleteSession(tenant=TENANT, id=session))
        if self.random.random() < 0.5:
            self.take()
        self.twins.write(RestoreSession(tenant=TENANT, id=session))

    def wait(self) -> None:
        self.clock.advance(self.random.choice([0.001, 1, 4, 12, 61]))


def held(lease: Lease) -> dict[str, Any]:
    return {
        "tenant": TENANT, "session": lease.session, "owner": lease.owner,
        "token": lease.token, "fence": lease.fence,
    }  # fmt: skip
