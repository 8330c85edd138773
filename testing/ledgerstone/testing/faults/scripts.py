"""A fixed play of commands with something of everything, for loops that fail it at each point.

Every id, salt and time is given: step n happens at second n, so a step that is repeated later
leaves the same bytes as one that went through at once. HISTORY is there before anything fails.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone.clock import US_PER_S
from ledgerstone.codec import encode_json, encode_struct, sha256
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.blobs import RecordIntent
from ledgerstone.commands.leases import RenewLease, TakeLease
from ledgerstone.commands.nodes import AnnotateNodes, NewNote, NewValue, VacuumSession
from ledgerstone.commands.runs import PutRun
from ledgerstone.commands.sessions import (
    CopySession,
    CreateSession,
    DeleteSession,
    PurgeSession,
    PutSession,
    SweepPurged,
    UpdateSession,
)
from ledgerstone.commands.tickets import NewTicket, ResolveTicket
from ledgerstone.commands.turns import (
    Amendment,
    BranchMove,
    CommitTurn,
    NewCheckpoint,
    NewNode,
    Rewind,
)
from ledgerstone.commands.work import (
    ClaimWork,
    Completion,
    EnqueueWork,
    FailClaim,
    NewBatch,
    ReplayWork,
    TakeWork,
)
from ledgerstone.records.decisions import Decision
from ledgerstone.records.messages import ROLES, MessageBody, Role
from ledgerstone.records.parts import Text
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import Checkpoint
from ledgerstone.records.usage import Usage, UsageEntry
from ledgerstone.records.work import QUEUE_DEFAULT
from ledgerstone.rules.chain import turn_hash
from ledgerstone.testing.faults.commits import TENANT

START_US = 1_700_000_000_000_000
SALT = b"0123456789abcdef"
LEASE_US = 3600 * US_PER_S
SESSIONS = ("base", "other", "gone", "alpha", "beta", "forked", "copied", "new")
PLAIN = ("alpha", "beta")


class Step(msgspec.Struct, frozen=True):
    """One command, or several that are sent at once and meet in a group."""

    now_us: int
    commands: tuple[Command[Any], ...]


def said(id: str, text: str, role: Role = "user") -> NewNode:
    """A message of one text."""
    body = encode_struct(MessageBody(role=role, parts=[Text(text)]), "body")
    return NewNode(id, "message", ROLES.index(role) + 1, body, SALT)


def turn(session: str, id: str, *nodes: NewNode, kind: str = "turn", **rest: Any) -> CommitTurn:
    """A commit with its hash."""
    command = CommitTurn(tenant=TENANT, session=session, turn=id, kind=kind, nodes=nodes, **rest)
    return replace(command, hash=turn_hash(command))


def talk(session: str, id: str, size: int = 200, **rest: Any) -> CommitTurn:
    """A question and an answer that is `size` characters long."""
    answer = f"{id} " * (size // (len(id) + 1))
    return turn(
        session, id, said(f"{id}.q", f"question {id}"), said(f"{id}.a", answer, "assistant"), **rest
    )


def _new(id: str, **fields: Any) -> Session:
    return Session(id=id, **fields)


def rich_turn(session: str, id: str, **rest: Any) -> CommitTurn:
    """A turn that carries whatever a turn can carry."""
    value = NewValue(sha256(b"kept" * 300), b"kept" * 300)
    manifest = Checkpoint(turn_state={"step": id}, tool_state=value.digest)
    data = encode_struct(manifest, "checkpoint")
    plugin = NewNode(f"{id}.p", "plugin", None, b'{"n":1}', SALT, "label", refs=(value.digest,))
    return turn(
        session,
        id,
        said(f"{id}.q", "with everything"),
        plugin,
        state={"step": id},
        usage=(UsageEntry("model", Usage(3, 4)),),
        values=(value,),
        notes=(NewNote(f"{id}.q", "seen", b'{"by":"script"}'),),
        config=b'{"model":"m"}',
        checkpoint=NewCheckpoint(sha256(data), manifest, data),
        attach=("file",),
        **rest,
    )


def _before() -> list[tuple[Command[Any], ...]]:
    return [
        (talk("base", "b1", create=_new("base", user="ada")),),
        (talk("base", "b2", 9000),),
        (talk("other", "o1", create=_new("other")),),
        (talk("gone", "g1", 5000, create=_new("gone")),),
        (talk("base", "b3", 3000),),
    ]


def enqueue(session: str, id: str, **rest: Any) -> EnqueueWork:
    """One payload for a session."""
    return EnqueueWork(tenant=TENANT, batch=batch(session, id, **rest))


def batch(session: str, id: str, **rest: Any) -> NewBatch:
    """The same, for a commit."""
    return NewBatch(session=session, id=id, payloads=b'[{"n":1}]', **rest)


def take(claim: str, ttl_us: int = LEASE_US) -> TakeWork:
    """Take whatever is ready; lease and claim have tokens that are named after the claim."""
    return TakeWork(
        tenant=TENANT,
        queue=QUEUE_DEFAULT,
        owner="bob",
        lease_token=f"lease of {claim}",
        claim=claim,
        claim_token=token_of(claim),
        ttl_us=ttl_us,
    )


def token_of(claim: str) -> str:
    """The token under which `claim` is made in these plays."""
    return f"token of {claim}"


def completed(claim: str) -> Completion:
    """The claim as a commit completes it."""
    return Completion(claim, token_of(claim))


def fail(session: str, claim: str, **rest: Any) -> FailClaim:
    """The worker gives up."""
    return FailClaim(
        tenant=TENANT, session=session, claim=claim, token=token_of(claim), error="no luck", **rest
    )


def _worker(claim: str) -> dict[str, Any]:
    return {"owner": "bob", "token": token_of(claim), "ttl_us": LEASE_US}


def _work() -> list[tuple[Command[Any], ...]]:
    """The queue: taken, failed, completed with a question and more work, decided, buried."""
    held, asked = (
        Guard(1, "lease of c2"),
        NewTicket(id="ticket", call_id="call", tool="send", arguments=b'{"to":"eve"}'),
    )
    decision = Decision(id="decision", action="resume", by="eve")
    return [
        (
            enqueue("other", "w2"),
            enqueue("beta", "w3", priority=1),
            enqueue("base", "w4", priority=200),
        ),
        (take("c2"),),
        (fail("beta", "c2", delay_us=0),),
        (ClaimWork(tenant=TENANT, session="beta", claim="c3", guard=held, **_worker("c3")),),
        (
            talk(
                "beta",
                "e3",
                guard=held,
                complete=(completed("c3"),),
                tickets=(asked,),
                enqueue=(batch("other", "w5"),),
                release=True,
            ),
        ),
        (
            ResolveTicket(
                tenant=TENANT, id="ticket", decision=decision, batch="w6", queue=QUEUE_DEFAULT
            ),
        ),
        (take("c4"),),
        (fail("other", "c4", bury=True),),
        (ReplayWork(tenant=TENANT, batch="w2"),),
    ]


def _play() -> list[tuple[Command[Any], ...]]:
    place: dict[str, Any] = {"tenant": TENANT}
    alpha: dict[str, Any] = {"tenant": TENANT, "session": "alpha"}
    held = Guard(1, "token")
    patch = encode_json({"metadata": {"changed": True}}, "patch")
    return [
        (CreateSession(session=_new("alpha", title="A"), document=b'{"d":1}', **place),),
        (talk("alpha", "a1"),),
        (talk("base", "b4", 6000),),
        # A group: two of its sessions are new, one of its members is refused.
        (
            talk("alpha", "a2"),
            talk("beta", "e1", 3000, create=_new("beta")),
            talk("base", "b5"),
            talk("base", "b6", guard=Guard(revision=1)),
            talk("other", "o2"),
            talk("beta", "e2"),
        ),
        (turn("base", "amend", kind="amend", amendments=(Amendment("b1.q", patch, SALT),)),),
        (TakeLease(owner="ann", token="token", ttl_us=LEASE_US, **alpha),),
        (RecordIntent(id="file", uri="blob:1", **alpha),),
        (rich_turn("alpha", "a3", guard=held),),
        (RenewLease(owner="ann", token="token", fence=1, ttl_us=LEASE_US, **alpha),),
        (enqueue("alpha", "w1"),),
        (ClaimWork(claim="c1", **_worker("c1"), guard=held, **alpha),),
        (talk("alpha", "a4", guard=held, complete=(completed("c1"),), release=True),),
        *_work(),
        (CopySession(source="base", target=_new("forked"), whole=False, turn="fork", **place),),
        (CopySession(source="base", target=_new("copied"), whole=True, turn="copy", **place),),
        (talk("forked", "f1"),),
        (
            turn(
                "base", "branch", kind="branch", branches=(BranchMove("b", to="b1.a", create=True),)
            ),
        ),
        (talk("base", "side", branch="b"),),
        (PutRun(run=Run(id="run", session="beta", agent="a"), **place),),
        (UpdateSession(id="beta", title="B", document=b'{"d":2}', **place),),
        (PutSession(session=_new("new", app="x"), document=b"[1]", **place),),
        (AnnotateNodes(notes=(NewNote("a1.q", "mark", b"1"),), **alpha),),
        (turn("other", "pop", kind="pop", rewind=Rewind(pop=1)),),
        (turn("base", "hide", kind="tombstone", tombstones=("b2.a",)),),
        (VacuumSession(session="base", **place),),
        # A larger group: its log is moved into the file right after.
        tuple(talk(name, f"{name}-9", 12_000) for name in ("alpha", "beta", "base", "other")),
        (DeleteSession(id="gone", **place),),
        (PurgeSession(id="gone", **place),),
        (SweepPurged(limit=1000, **place),),
        (talk("gone", "g2", create=_new("gone")),),
        (talk("base", "b7", 30_000),),
        (talk("new", "n1"),),
    ]


def _timed(groups: list[tuple[Command[Any], ...]], first: int) -> tuple[Step, ...]:
    return tuple(
        Step(START_US + n * US_PER_S, commands) for n, commands in enumerate(groups, first)
    )


HISTORY = _timed(_before(), 0)
PLAY = _timed(_play(), len(HISTORY))
WORK_STEPS = range(12, 21)
SHORT = tuple(PLAY[n] for n in (0, 1, 3, 4, 5, 6, 7, 21))
"""The eight steps that show most, for loops in which every point costs a process."""

WORK = tuple(PLAY[n] for n in (3, *WORK_STEPS))
"""The steps of the queue, for the same loops, and the one that makes their session."""
