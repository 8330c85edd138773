"""Commands made by hand for the tests of the oracle."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledgerstone.clock import ManualClock
from ledgerstone.codec import encode_json, encode_struct, sha256
from ledgerstone.commands import Command, Guard, Query
from ledgerstone.commands.leases import TakeLease
from ledgerstone.commands.nodes import NewValue, ReadMessages
from ledgerstone.commands.sessions import CreateSession, GetHead
from ledgerstone.commands.turns import CommitTurn, NewNode, VerifySession
from ledgerstone.commands.work import ClaimWork, Completion, EnqueueWork, NewBatch
from ledgerstone.records.leases import Lease
from ledgerstone.records.messages import message
from ledgerstone.records.reports import Verified
from ledgerstone.records.sessions import Head, Session
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.rules.bodies import ROLE_NUMBERS
from ledgerstone.rules.chain import turn_hash
from tests.oracle.model.model import Model

T = "acme"
S = "s1"
START_US = 1_700_000_000_000_000


def said(node: str, text: str = "", role: str = "user", **fields: Any) -> NewNode:
    """A message node."""
    body = encode_struct(message(role, text or node).body, "body")
    return NewNode(node, "message", ROLE_NUMBERS[role], body, node.encode().ljust(16), **fields)


def event(node: str, body: Any = None, **fields: Any) -> NewNode:
    """A node that is no message."""
    return NewNode(node, "event", None, encode_json(body, "body"), b"salt", **fields)


def value(data: bytes) -> NewValue:
    return NewValue(sha256(data), data)


def turn(name: str, *nodes: NewNode, session: str = S, kind: str = "turn", **fields: Any) -> Any:
    """A CommitTurn with its content hash."""
    made = CommitTurn(tenant=T, session=session, turn=name, kind=kind, nodes=nodes, **fields)
    return replace(made, hash=turn_hash(made))


def enqueue(batch: str, key: str | None = None, session: str = S) -> EnqueueWork:
    """A batch with one payload that names it."""
    payloads = encode_json([{"of": batch}], "payloads")
    new = NewBatch(session=session, id=batch, payloads=payloads, source_key=key)
    return EnqueueWork(tenant=T, batch=new)


def claim_work(claim: str, under: Guard, ttl_us: int = 60_000_000) -> ClaimWork:
    """The next batch for a worker."""
    token = f"of {claim}"
    return ClaimWork(
        tenant=T, session=S, claim=claim, owner="w", token=token, ttl_us=ttl_us, guard=under
    )


def completed(*claims: str) -> tuple[Completion, ...]:
    """Claims of `claim_work`, as a commit completes them."""
    return tuple(Completion(claim, f"of {claim}") for claim in claims)


class Bench:
    """A model, its clock, and short names for what the tests do all the time."""

    def __init__(self, *sessions: str) -> None:
        self.clock = ManualClock(START_US)
        self.model = Model(self.clock)
        for session in sessions:
            self.write(CreateSession(tenant=T, session=Session(id=session, tenant=T)))

    def write(self, command: Command[Any]) -> Any:
        return self.model.write(command)

    def read(self, query: Query[Any]) -> Any:
        return self.model.read([query])[0]

    def commit(self, name: str, *nodes: NewNode, **fields: Any) -> TurnCommitted:
        answer: TurnCommitted = self.write(turn(name, *nodes, **fields))
        return answer

    def texts(self, session: str = S, **fields: Any) -> list[str]:
        query = ReadMessages(tenant=T, session=session, **fields)
        return [each.text for each in self.read(query)]

    def head(self, session: str = S) -> Head:
        head: Head | None = self.read(GetHead(tenant=T, id=session))
        assert head is not None
        return head

    def lease(self, owner: str = "w1", ttl_us: int = 60_000_000, **fields: Any) -> Lease:
        fields = {"session": S, "token": f"token of {owner}", **fields}
        lease: Lease | None = self.write(TakeLease(tenant=T, owner=owner, ttl_us=ttl_us, **fields))
        assert lease is not None
        return lease

    def verify(self, session: str = S) -> Verified:
        report: Verified = self.read(VerifySession(tenant=T, session=session))
        return report

    def snapshot(self) -> dict[str, list[Any]]:
        """Everything in every table, to see that a failure left no trace."""
        tables = self.model.state.tables().items()
        return {name: [(key, repr(row)) for key, row in table.scan()] for name, table in tables}


def guard(lease: Lease, revision: int | None = None) -> Guard:
    return Guard(lease.fence, lease.token, revision)
