"""A random stream of the commands that PostgreSQL plans, and of some that change what they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from ledgerstone.codec import encode_json, sha256
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.leases import ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.nodes import AnnotateNodes, NewNote, NewValue
from ledgerstone.commands.turns import CommitTurn, NewNode
from ledgerstone.commands.work import (
    AbandonClaim,
    Completion,
    EnqueueWork,
    InterruptWork,
    NewBatch,
    TakeWork,
)
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.leases import Lease
from ledgerstone.records.usage import Usage, UsageEntry
from ledgerstone.records.work import Claim, OnDuplicate, Taken
from tests.backends.planned import TENANT, commit
from tests.backends.single import run

SESSIONS = ("s0", "s1", "s2")
QUEUES = ("default", "other")
TTL_US = 5_000_000


class HotCommands:
    """The next command follows from the seed and from what was answered so far."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._count = 0
        self._leases: dict[str, Lease] = {}
        self._claims: dict[str, Claim] = {}

    def __iter__(self) -> Iterator[Command[Any]]:
        makers: tuple[Callable[[str], Command[Any] | None], ...] = (
            *[self._turn] * 10,
            *(self._take_lease, self._renew, self._release, self._enqueue, self._enqueue),
            *(self._take_work, self._take_work, self._annotate, self._abandon, self._interrupt),
        )
        while True:
            self._count += 1
            command = self._random.choice(makers)(self._random.choice(SESSIONS))
            if command is not None:
                yield command

    def answered(self, answer: Any) -> None:
        """What the last command brought."""
        if isinstance(answer, Taken):
            self._claims[answer.claim.session] = answer.claim
            answer = answer.lease
        if isinstance(answer, Lease):
            self._leases[answer.session] = answer

    def _some(self, share: float = 0.3) -> bool:
        return self._random.random() < share

    def _guard(self, session: str) -> Guard:
        lease = self._leases.get(session)
        return Guard(lease.fence, lease.token) if lease and self._some(0.9) else Guard()

    def _turn(self, session: str) -> CommitTurn:
        turn, some = f"t{self._count - self._some(0.05) * 4}", self._some
        guard = self._guard(session)
        fields: dict[str, Any] = {"guard": guard, "release": some() and guard.fence is not None}
        own = f"{session} {self._count // 20}"
        run_id = self._random.choice((None, own, own, own, f"r{self._count}", "r"))
        if run_id is not None:
            status = self._random.choice((*["running"] * 6, "waiting", "done"))
            fields["run"] = run(status, run_id, session)
        if some():
            fields["nodes"] = tuple(self._node(turn, n, run_id) for n in range(self._count % 3))
        if some():
            fields["state"] = {self._random.choice("ab"): self._random.choice((None, 1, "x"))}
        if some():
            model = self._random.choice(("m", "n"))
            fields["usage"] = (UsageEntry(model, Usage(self._count, 2)),)
        if some():
            data = encode_json(self._random.randrange(5), "value")
            fields["values"] = (NewValue(sha256(data), data),)
        fields["notes"] = self._notes() if some() else ()
        fields["kept_notes"] = self._notes() if some() else ()
        fields["drop_drafts"] = (self._random.choice("xy"),) if some() else ()
        fields["config"] = self._random.choice((None, None, b"{}"))
        claim = self._claims.get(session)
        if claim is not None and self._some(0.7):
            fields["complete"] = (Completion(claim.id, claim.token),)
            del self._claims[session]
        if some():
            fields["enqueue"] = tuple(self._batch(session) for _ in range(self._count % 3))
        return commit(session, turn, **fields)

    def _node(self, turn: str, n: int, run_id: str | None) -> NewNode:
        body = encode_json({"parts": [{"text": turn, "type": "text"}], "role": "user"}, "body")
        named = self._random.choice((None, "r", "mentioned", run_id))
        return NewNode(f"{turn} {n}", "message", 2, body, b"0" * 16, run_id=named)

    def _notes(self) -> tuple[NewNote, ...]:
        keys = ("k", "l", f"{DRAFT_PREFIX}start")
        return tuple(
            NewNote(self._random.choice("xy"), key, encode_json(self._count, "note"))
            for key in self._random.sample(keys, 2)
        )

    def _batch(self, session: str) -> NewBatch:
        pick = self._random.choice
        return NewBatch(
            session=session,
            id=f"b{self._random.randrange(40)}",
            payloads=b"[1]",
            source_key=pick((None, None, "k1", "k2")),
            queue=pick(QUEUES),
            priority=pick((100, 100, 5)),
            delay_us=pick((0, 0, 3_000_000)),
            slot=pick(("exclusive", "join")),
            merge=pick(("never", "g")),
        )

    def _take_lease(self, session: str) -> TakeLease:
        owner, token = self._random.choice("ab"), f"k{self._count}"
        reenter = self._some()
        return TakeLease(
            tenant=TENANT, session=session, owner=owner, token=token, ttl_us=TTL_US, reenter=reenter
        )

    def _renew(self, session: str) -> RenewLease | None:
        lease = self._leases.get(session)
        if lease is None:
            return None
        return RenewLease(
            tenant=TENANT,
            session=session,
            owner=lease.owner,
            token=lease.token,
            fence=lease.fence,
            ttl_us=TTL_US,
        )

    def _release(self, session: str) -> ReleaseLease | None:
        lease = self._leases.get(session)
        if lease is None:
            return None
        return ReleaseLease(
            tenant=TENANT, session=session, owner=lease.owner, token=lease.token, fence=lease.fence
        )

    def _enqueue(self, session: str) -> EnqueueWork:
        twice: OnDuplicate = "refuse" if self._some() else "answer"
        return EnqueueWork(tenant=TENANT, batch=self._batch(session), on_duplicate=twice)

    def _take_work(self, session: str) -> TakeWork:
        names = {"lease_token": f"k{self._count}", "claim": f"c{self._count}"}
        return TakeWork(
            tenant=TENANT,
            queue=self._random.choice(QUEUES),
            owner="w",
            claim_token=f"p{self._count}",
            ttl_us=TTL_US,
            max_batches=self._random.choice((1, 3)),
            **names,
        )

    def _annotate(self, session: str) -> AnnotateNodes:
        drafts = (NewNote("x", f"{DRAFT_PREFIX}{self._count}", b'"more"'),)
        return AnnotateNodes(tenant=TENANT, session=session, notes=(*self._notes(), *drafts))

    def _abandon(self, session: str) -> AbandonClaim | None:
        claim = self._claims.get(session)
        if claim is None:
            return None
        return AbandonClaim(tenant=TENANT, session=session, claim=claim.id, token=claim.token)

    def _interrupt(self, session: str) -> InterruptWork | None:
        return InterruptWork(tenant=TENANT, session=session) if self._some() else None
