"""A storm of work: lawful commands mostly, close together, on a few sessions.

The machine draws anything and shrinks what it finds; this one aims. Most commands meet a batch, a
claim or a lease that is there, so groups, takeovers, retries and burials come by the hundred.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.leases import BreakLease, GetLease, ReleaseLease, TakeLease
from ledgerstone.commands.sessions import (
    CreateSession,
    DeleteSession,
    PurgeSession,
    RestoreSession,
)
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.work import (
    AbandonClaim,
    CancelWork,
    ClaimWork,
    Completion,
    DropDead,
    EnqueueWork,
    FailClaim,
    ListDead,
    ListWork,
    NewBatch,
    RenewClaim,
    ReplayWork,
    TakeWork,
)
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Lease
from ledgerstone.records.sessions import Session
from ledgerstone.records.work import Batch
from ledgerstone.rules.chain import turn_hash
from tests.machine import work_draws
from tests.machine.work_draws import LEASE_US, US, token_of

SESSIONS = ("s1", "s2", "s3", "s4")
WAITS_S = (0, 0, 0, 0.000001, 0.5, 1, 1, 2, 2, 5, 5, 20, 61)


def _done(named: dict[str, Any]) -> Completion:
    return Completion(named["claim"], named["token"])


class Storm:
    """Makes one command after the other, each fit for how the model stands now."""

    def __init__(self, model: Backend, clock: ManualClock, seed: int) -> None:
        self.model = model
        self.clock = clock
        self.random = Random(seed)
        self._made = 0
        self._shape: dict[str, Any] = {**work_draws.SHAPES[0], "session": SESSIONS[0]}
        self._verbs: dict[Callable[[], Command[Any] | None], int] = {
            self.enqueue: 24,
            self.take: 16,
            self.complete: 14,
            self.claim: 14,
            self.fail: 8,
            self.lease: 6,
            self.release: 6,
            self.abandon: 4,
            self.renew: 4,
            self.commit: 4,
            self.cancel: 3,
            self.replay: 4,
            self.drop: 1,
            self.break_lease: 2,
            self.delete: 1,
            self.restore: 5,
            self.purge: 1,
            self.create: 8,
        }

    def next(self) -> Command[Any]:
        """Some time passes, then this is asked."""
        self.clock.advance(self.random.choice(WAITS_S))
        while True:
            (verb,) = self.random.choices(list(self._verbs), list(self._verbs.values()))
            command = verb()
            if command is not None:
                return command

    # --- how things stand

    def session(self) -> str:
        return self.random.choice(SESSIONS)

    def name(self, kind: str) -> str:
        self._made += 1
        return f"{kind}{self._made}"

    def lease_of(self, session: str) -> Lease | None:
        found: Lease | None = self.model.read([GetLease(tenant="default", session=session)])[0]
        return found

    def guard(self, session: str) -> Guard:
        lease = self.lease_of(session)
        return Guard() if lease is None else Guard(lease.fence, lease.token)

    def queued(self, session: str | None = None) -> list[Batch]:
        wanted = SESSIONS if session is None else (session,)
        lists = self.model.read([ListWork(tenant="default", session=one) for one in wanted])
        return [batch for found in lists for batch in found]

    def claimed(self) -> dict[str, Any] | None:
        """A claim that stands in some batch, lost or not."""
        found = [batch for batch in self.queued() if batch.claim is not None]
        if not found:
            return None
        batch = self.random.choice(found)
        token = token_of(str(batch.claim)) if self.random.random() < 0.95 else "guessed"
        return self.at(batch.session, claim=batch.claim, token=token)

    def at(self, session: str, **more: Any) -> dict[str, Any]:
        return {"tenant": "default", "session": session, **more}

    def batch(self) -> NewBatch:
        # Often one more of the same, since only neighbours come together.
        if self.random.random() < 0.6:
            self._shape = {**self.random.choice(work_draws.SHAPES), "session": self.session()}
        return NewBatch(id=self.name("w"), **{**self._shape, "source_key": self.key()})

    def key(self) -> str | None:
        return self.random.choice((None, None, None, "key"))

    # --- what may be asked

    def enqueue(self) -> Command[Any]:
        return EnqueueWork(tenant="default", batch=self.batch())

    def take(self) -> Command[Any]:
        claim = self.name("c")
        return TakeWork(
            tenant="default",
            queue=self.random.choice(work_draws.QUEUES),
            owner=self.random.choice(("ann", "bob")),
            lease_token=self.name("k"),
            claim=claim,
            claim_token=token_of(claim),
            ttl_us=self.random.choice((US, LEASE_US, LEASE_US)),
            max_batches=self.random.choice((1, 2, 5)),
        )

    def claim(self) -> Command[Any]:
        session = self.random.choice([batch.session for batch in self.queued()] or SESSIONS)
        guard, claim = self.guard(session), self.name("c")
        if guard.fence is None:
            return self.lease(session)
        ids = [batch.id for batch in self.queued(session)][: self.random.randint(0, 2)]
        return ClaimWork(
            **self.at(session),
            claim=claim,
            owner="ann",
            token=token_of(claim),
            ttl_us=self.random.choice(work_draws.CLAIM_TTLS_US),
            boundary=self.random.choice(("idle", "idle", "active_turn_checkpoint")),
            max_batches=self.random.choice((0, 1, 2, 5, 5)),
            ids=self.random.choice((None, None, None, tuple(ids))),
            queue=self.random.choice((None, "default", "side")),
            guard=guard,
        )

    def renew(self) -> Command[Any] | None:
        named = self.claimed()
        ttl_us = self.random.choice((0, US, LEASE_US))
        return None if named is None else RenewClaim(ttl_us=ttl_us, **named)

    def abandon(self) -> Command[Any] | None:
        named = self.claimed()
        delay_us = self.random.choice((0, 0, 9 * US))
        return None if named is None else AbandonClaim(delay_us=delay_us, **named)

    def fail(self) -> Command[Any] | None:
        named = self.claimed()
        if named is None:
            return None
        delay_us = self.random.choice((None, None, 3 * US))
        bury = self.random.random() < 0.1
        return FailClaim(error="no luck", delay_us=delay_us, bury=bury, **named)

    def complete(self) -> Command[Any] | None:
        named = self.claimed()
        return None if named is None else self.turn(named["session"], _done(named), self.more())

    def commit(self) -> Command[Any]:
        return self.turn(self.session(), None, self.more())

    def more(self) -> tuple[NewBatch, ...]:
        return tuple(self.batch() for _ in range(self.random.choice((0, 0, 1, 2))))

    def turn(
        self, session: str, done: Completion | None, more: tuple[NewBatch, ...]
    ) -> Command[Any]:
        guard = self.guard(session)
        command = CommitTurn(
            **self.at(session),
            turn=self.name("t"),
            kind="turn",
            complete=() if done is None else (done,),
            enqueue=more,
            release=guard.fence is not None and self.random.random() < 0.7,
            guard=guard,
        )
        return msgspec.structs.replace(command, hash=turn_hash(command))

    def cancel(self) -> Command[Any] | None:
        queued = self.queued()
        if not queued:
            return None
        batch = self.random.choice(queued)
        return CancelWork(**self.at(batch.session), batch=batch.id)

    def _dead(self) -> str | None:
        dead = self.model.read([ListDead(tenant="default")])[0].items
        return self.random.choice(dead).id if dead else None

    def replay(self) -> Command[Any] | None:
        batch = self._dead()
        return None if batch is None else ReplayWork(tenant="default", batch=batch)

    def drop(self) -> Command[Any] | None:
        batch = self._dead()
        return None if batch is None else DropDead(tenant="default", batch=batch)

    def lease(self, session: str | None = None) -> Command[Any]:
        owner, reenter = self.random.choice(("ann", "bob")), self.random.random() < 0.5
        ttl_us = self.random.choice((US, LEASE_US))
        grant: dict[str, Any] = {"owner": owner, "token": self.name("k"), "ttl_us": ttl_us}
        return TakeLease(**self.at(session or self.session()), **grant, reenter=reenter)

    def release(self) -> Command[Any] | None:
        lease = self.lease_of(self.session())
        if lease is None:
            return None
        grant: dict[str, Any] = {"owner": lease.owner, "token": lease.token, "fence": lease.fence}
        return ReleaseLease(**self.at(lease.session), **grant)

    def break_lease(self) -> Command[Any]:
        return BreakLease(**self.at(self.session()), by="op", reason="storm")

    def delete(self) -> Command[Any]:
        return DeleteSession(tenant="default", id=self.session())

    def restore(self) -> Command[Any]:
        return RestoreSession(tenant="default", id=self.session())

    def purge(self) -> Command[Any]:
        return PurgeSession(tenant="default", id=self.session())

    def create(self) -> Command[Any]:
        session = Session(id=self.session(), tenant="default", user="u1")
        return CreateSession(tenant="default", session=session, ensure=True)
