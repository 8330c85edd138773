"""What may happen to bytes, evidence, usage and memory, as rules of the machine."""

from __future__ import annotations

from inspect import getmembers
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import (
    RULE_MARKER,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from ledgerstone.clock import ManualClock
from ledgerstone.codec import encode_struct
from ledgerstone.commands import Command, Guard, Query
from ledgerstone.commands.blobs import (
    BeginUpload,
    FinishUpload,
    ForgetUpload,
    GetBlob,
    PutChunk,
)
from ledgerstone.commands.sessions import CopySession, PurgeSession
from ledgerstone.commands.turns import CommitTurn, NewNode
from ledgerstone.commands.usage import DeleteUsage
from ledgerstone.ports.backend import Backend
from ledgerstone.records.blobs import Blob
from ledgerstone.records.messages import MessageBody
from ledgerstone.records.parts import Image
from ledgerstone.records.sessions import Session
from tests.machine import draws, kept_checks, kept_draws, memory_draws, writes

KEPT = (
    "append_freely",
    "ask_about_memory",
    "ask_about_what_is_kept",
    "change_session",
    "commit_a_turn",
    "copy_anew",
    "decide_and_call",
    "keep_a_while",
    "keep_in_a_commit",
    "keep_more",
    "put_bytes",
    "repeat",
    "sweep",
    "wait",
    "write_beside",
)


def at_keeping(machine: type[RuleBasedStateMachine]) -> type[RuleBasedStateMachine]:
    """The same machine with hardly anything else on its mind, so that more comes together."""
    rules = (name for name, found in getmembers(machine) if hasattr(found, RULE_MARKER))
    return type("AtKeeping", (machine,), {name: None for name in rules if name not in KEPT})


class Step(NamedTuple):
    """A command, how long after the one before it, and the guard it should come with."""

    command: Command[Any]
    guard: str
    wait_s: float


TOPICS = (
    kept_draws.blob_writes,
    kept_draws.artifact_writes,
    kept_draws.artifact_writes,
    kept_draws.evidence_writes,
    kept_draws.usage_writes,
    kept_draws.usage_writes,
    memory_draws.memory_writes,
    memory_draws.memory_writes,
    memory_draws.embedding_writes,
)


@st.composite
def some_steps(draw: st.DrawFn) -> list[Step]:
    """Mostly about one thing: what is drawn from everything hardly ever meets its like."""
    topics = st.sampled_from((*(draw(st.sampled_from(TOPICS)),) * 2 * len(TOPICS), *TOPICS))
    tenant = draw(draws.tenants)
    waits = st.sampled_from(kept_draws.WAITS_S)
    return [
        Step(draw(draw(topics)(tenant)), draw(draws.guards), draw(waits))
        for _ in range(draw(st.integers(3, 12)))
    ]


class Kept(NamedTuple):
    """What a commit keeps besides its messages."""

    blobs: tuple[str, ...]
    artifacts: tuple[Any, ...]
    quota: Any
    traces: tuple[bytes, ...]
    reports: tuple[bytes, ...]
    memories: tuple[Any, ...]
    usage: tuple[Any, ...]
    over_budget: bool


seldom = st.sampled_from((False, False, False, True))
kept = st.builds(
    Kept,
    draws.once(kept_draws.refs, 2),
    st.one_of(st.just(()), kept_draws.some_artifacts),
    kept_draws.quotas,
    kept_draws.bodies,
    st.one_of(st.just(()), kept_draws.bodies),
    st.lists(memory_draws.new_memories(), max_size=2).map(tuple),
    st.lists(draws.usages(), max_size=3).map(tuple),
    seldom,
)


class KeptRules(RuleBasedStateMachine):
    """The part of the machine that keeps things; another one says how commands are sent."""

    model: Backend
    subject: Backend
    clock: ManualClock
    uploads_made = 0
    uses_made = 0
    if TYPE_CHECKING:

        def send(self, command: Command[Any]) -> Any: ...
        def ask(self, query: Query[Any]) -> Any: ...
        def compare(self, asked: object, wanted: Any, got: Any) -> None: ...
        def guard(self, tenant: str, session: str, word: str) -> Guard: ...
        def filled_in(self, command: CommitTurn) -> CommitTurn: ...

    @initialize(count=st.sampled_from((0, 1, 3, 3, 3, 3)))
    def begin_with_bytes(self, count: int) -> None:
        """So that the first artifacts and messages find some."""
        for n in range(count):
            self.put_these("default", n, None, "database", 9)

    @rule(
        tenant=draws.tenants,
        n=st.integers(0, 2),
        media_type=kept_draws.media_types,
        place=st.sampled_from(("database", "database", "elsewhere")),
        upto=st.sampled_from((1, 2, 3, 9, 9, 9, 9)),
    )
    def put_bytes(self, tenant: str, n: int, media_type: Any, place: str, upto: int) -> None:
        self.put_these(tenant, n, media_type, place, upto)

    def put_these(self, tenant: str, n: int, media_type: Any, place: str, upto: int) -> None:
        """As the API does it; some never come to the end."""
        self.uploads_made += 1
        key, data = f"u{self.uploads_made}", kept_draws.CONTENTS[n]
        self.send(BeginUpload(tenant=tenant, key=key, place=place))
        if upto > 1 and place == "database":
            self.send_if_known(PutChunk(tenant=tenant, key=key, n=0, data=data))
        if upto > 2:
            finish = FinishUpload(
                tenant=tenant,
                key=key,
                ref=kept_draws.REFS[n],
                size_bytes=len(data),
                sums=kept_draws.sums_of(data),
                media_type=media_type,
            )
            blob = self.send(finish)
            if upto > 3 and isinstance(blob, Blob) and blob.key != key:
                self.send(ForgetUpload(tenant=tenant, key=key))

    @rule(steps=some_steps())
    def keep_a_while(self, steps: list[Step]) -> None:
        """Several steps in a row: one alone would hardly ever meet the other that it needs."""
        self.keep_steps(steps)

    def keep_steps(self, steps: list[Step]) -> None:
        for step in steps:
            self.clock.advance(step.wait_s)
            command: Any = step.command
            if isinstance(command, CommitTurn):
                self.uses_made += 1
                command = msgspec.structs.replace(command, turn=f"use {self.uses_made}")
            if isinstance(command, DeleteUsage | CommitTurn):
                guard = self.guard(command.tenant, command.session, step.guard)
                command = msgspec.structs.replace(command, guard=guard)
            self.send_if_known(command)

    @rule(steps=some_steps())
    def keep_more(self, steps: list[Step]) -> None:
        """The same again: a machine takes its rules in turns, and this one does the most."""
        self.keep_steps(steps)

    def send_if_known(self, command: Command[Any]) -> None:
        """Where bytes have a folder of their own, none of them travel as commands."""
        if isinstance(command, PutChunk) and self.subject.capabilities.bytes_folder is not None:
            return
        self.send(command)

    @rule(made=writes.appends(), more=kept, guard=draws.guards, lawful=st.booleans())
    def keep_in_a_commit(self, made: writes.Guarded, more: Kept, guard: str, lawful: bool) -> None:
        """Everything that a turn may keep; half of them only what is there, as it should be."""
        command = self.filled_in(made.command)
        tenant, session = command.tenant, command.session
        fields: dict[str, Any] = more._asdict()
        if lawful:
            present = self.refs_of(tenant)
            fields["blobs"] = tuple(ref for ref in more.blobs if ref in present)
            fields["artifacts"] = tuple(one for one in more.artifacts if one.ref in present)
        nodes = (*command.nodes[:-1], _showing(command.nodes[-1], fields["blobs"]))
        self.send(
            msgspec.structs.replace(
                command,
                kind="turn",
                nodes=nodes,
                guard=self.guard(tenant, session, guard),
                **fields,
            )
        )

    def refs_of(self, tenant: str) -> set[str]:
        found = self.model.read([GetBlob(tenant=tenant, ref=ref) for ref in kept_draws.REFS])
        return {blob.ref for blob in found if blob is not None}

    @rule(
        tenant=draws.tenants,
        source=st.sampled_from(("s1", "s1", "s2")),
        into=st.sampled_from(("s3", "s3", "s2")),
        whole=st.booleans(),
        keep_runs=st.booleans(),
    )
    def copy_anew(self, tenant: str, source: str, into: str, whole: bool, keep_runs: bool) -> None:
        """Everything of one session goes, and what it needs of another comes."""
        self.send(PurgeSession(tenant=tenant, id=into, keep_runs=keep_runs))
        self.uses_made += 1
        made = Session(id=into, tenant=tenant, user="u1")
        turn = f"copy {self.uses_made}"
        self.send(CopySession(tenant=tenant, source=source, target=made, whole=whole, turn=turn))

    @rule(query=kept_draws.questions())
    def ask_about_what_is_kept(self, query: Query[Any]) -> None:
        self.ask(query)

    @rule(query=memory_draws.questions())
    def ask_about_memory(self, query: Query[Any]) -> None:
        self.ask(query)

    @invariant()
    def both_keep_the_same(self) -> None:
        for tenant in ("default", "other"):
            queries = kept_checks.everything(tenant)
            wanted, got = self.model.read(queries), self.subject.read(queries)
            for query, one, other in zip(queries, wanted, got, strict=True):
                self.compare(query, one, other)

    @invariant()
    def what_is_kept_agrees_with_itself(self) -> None:
        for tenant in ("default", "other"):
            kept_checks.check(self.model, tenant)


def _showing(node: NewNode, refs: tuple[str, ...]) -> NewNode:
    """The message with pictures: each is bytes that the session needs from now on."""
    if not refs:
        return node
    body = MessageBody(role="user", parts=[Image(blob=ref) for ref in refs])
    return msgspec.structs.replace(node, role=2, body=encode_struct(body, "body"))
