"""The random-command machine: every command and query goes to the model and to a subject.

The model is the memory backend. Both share one manual clock and get the same ids, salts and
tokens, so their answers must be equal to the byte: records, links, errors and their fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command, Guard, Query
from ledgerstone.commands.context import ReadContext
from ledgerstone.commands.feed import ReadFeed
from ledgerstone.commands.leases import GetLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.nodes import ListBranches, ListNodes, ReadMessages
from ledgerstone.commands.runs import GetRun, ListRuns, UpdateRun
from ledgerstone.commands.sessions import (
    GetHead,
    GetSession,
    ListSessions,
    SessionFilter,
    SweepPurged,
)
from ledgerstone.commands.transfer import MarkCopy
from ledgerstone.commands.turns import BranchMove, CommitTurn, ListTurns, VerifySession, VerifyStore
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Session
from ledgerstone.rules.chain import turn_hash
from tests.machine import context_draws, draws, moved, questions, runs, writes
from tests.machine.ended_rules import EndedRules
from tests.machine.kept_rules import KeptRules
from tests.machine.ticket_rules import TicketRules
from tests.machine.work_rules import WorkRules

Make = Callable[[ManualClock], Backend]
SWEEP_LIMIT = 1000
SWEEPS_MAX = 20
FORGOTTEN_AFTER = 40


class Differs(AssertionError):
    """The subject answered something else than the model."""


class LedgerMachine(TicketRules, WorkRules, EndedRules, KeptRules):
    """Subclassed with the two factories by `machine_of`."""

    make_model: Make
    make_subject: Make

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(draws.START_US)
        self.model = type(self).make_model(self.clock)
        self.subject = type(self).make_subject(self.clock)
        self.sent: list[Command[Any]] = []
        self.made: Counter[tuple[str, str]] = Counter()
        self.differed = False

    def teardown(self) -> None:
        try:
            # After a difference the first report is the one that helps.
            for tenant in ("default", "other") if not self.differed else ():
                for session in draws.SESSIONS:
                    self.check_history(tenant, session)
                self.send(MarkCopy(tenant=tenant, ended=True))
                verified = self.subject.read([VerifyStore(tenant=tenant)])[0]
                assert verified.defects == []
        finally:
            self.model.close()
            self.subject.close()

    def check_history(self, tenant: str, session: str) -> None:
        """Nothing that legal commands do may look like damage, and the chains are the same."""
        self.ask(ListTurns(tenant=tenant, session=session))
        self.ask(ReadFeed(tenant=tenant))
        verified = self.ask(VerifySession(tenant=tenant, session=session))
        assert verified.defects == []

    # --- both sides at once

    def send(self, command: Command[Any]) -> Any:
        if isinstance(command, CommitTurn):
            command = msgspec.structs.replace(command, hash=turn_hash(command))
        self.sent = [*self.sent[-FORGOTTEN_AFTER:], command]
        wanted = outcome(lambda: self.model.write(command))
        got = outcome(lambda: self.subject.write(command))
        self.compare(command, wanted, got)
        return wanted

    def ask(self, query: Query[Any]) -> Any:
        wanted = outcome(lambda: self.model.read([query])[0])
        got = outcome(lambda: self.subject.read([query])[0])
        self.compare(query, wanted, got)
        return wanted

    def ask_all(self, queries: list[Query[Any]]) -> None:
        """Many at once, where nothing is wrong with any of them."""
        wanted = outcome(lambda: self.model.read(queries))
        got = outcome(lambda: self.subject.read(queries))
        if not (isinstance(wanted, list) and isinstance(got, list)):
            for query in queries:
                self.ask(query)
            return
        for query, one, other in zip(queries, wanted, got, strict=True):
            self.compare(query, one, other)

    def compare(self, asked: object, wanted: Any, got: Any) -> None:
        if not same(got, wanted):
            self.differed = True
            raise Differs(difference(asked, wanted, got))

    def guard(self, tenant: str, session: str, word: str) -> Guard:
        """The guard that a word means now: who holds the session, and at which revision."""
        lease, head, found = self.model.read(
            [
                GetLease(tenant=tenant, session=session),
                GetHead(tenant=tenant, id=session),
                GetSession(tenant=tenant, id=session),
            ]
        )
        revision = head.revision if head is not None else 0
        incarnation = found.incarnation if found is not None else 0
        fence, token = (lease.fence, lease.token) if lease is not None else (1, "k1")
        fit = Guard() if lease is None else Guard(fence, token)
        return {
            "fit": fit,
            "fit+revision": msgspec.structs.replace(fit, revision=revision),
            "free": Guard(),
            "held": Guard(fence, token),
            "stale": Guard(max(fence - 1, 0), token),
            "wrong token": Guard(fence, "k9"),
            "revision": Guard(revision=revision),
            "old": Guard(revision=max(revision - 1, 0)),
            "fit+incarnation": msgspec.structs.replace(fit, incarnation=incarnation),
            "another": Guard(revision=revision, incarnation=incarnation + 1),
            "absent": Guard(incarnation=0),
        }[word]

    def send_guarded(self, made: writes.Guarded) -> None:
        command = made.command
        guard = self.guard(command.tenant, command.session, made.guard)
        command = msgspec.structs.replace(command, guard=guard)
        self.send(self.filled_in(command))

    def filled_in(self, command: CommitTurn) -> CommitTurn:
        """The commit with new ids and the present leaf where it only says that it wants them."""
        place = (command.tenant, command.session)
        nodes = list(command.nodes)
        for n, node in enumerate(nodes):
            if node.id == draws.FRESH:
                self.made[place] += 1
                nodes[n] = msgspec.structs.replace(node, id=f"n{self.made[place]}")
        rewind = command.rewind
        if rewind is not None and rewind.expected == draws.FRESH:
            rewind = msgspec.structs.replace(rewind, expected=self.leaf(*place, command.branch))
        moves = tuple(
            msgspec.structs.replace(move, expected=self.leaf(*place, move.name))
            if move.expected == draws.FRESH
            else move
            for move in command.branches
        )
        return msgspec.structs.replace(command, nodes=tuple(nodes), rewind=rewind, branches=moves)

    def leaf(self, tenant: str, session: str, branch: str) -> str | None:
        listed = self.model.read([ListBranches(tenant=tenant, session=session)])[0]
        return next((found.leaf for found in listed if found.name == branch), None)

    # --- what may happen

    @initialize(
        first=writes.appends(), second=writes.appends(), branched=st.booleans(), held=st.booleans()
    )
    def begin(
        self, first: writes.Guarded, second: writes.Guarded, branched: bool, held: bool
    ) -> None:
        """Two sessions with something in them, so that the first rules find work already."""
        for session, made in (("s1", first), ("s2", second)):
            place: dict[str, Any] = {"tenant": "default", "session": session}
            create = Session(id=session, user="u1")
            fields = {**place, "create": create, "branch": "main", "turn": f"begin {session}"}
            self.send_guarded(
                writes.Guarded(msgspec.structs.replace(made.command, **fields), "free")
            )
            if branched:
                moves = (BranchMove("b1", to="n1", create=True),)
                self.send(CommitTurn(turn="branch", kind="branch", branches=moves, **place))
            if held:
                grant: dict[str, Any] = {"owner": "ann", "token": "k1", "ttl_us": writes.LEASE_US}
                self.send(TakeLease(**grant, **place))

    @rule(made=writes.whole_turns())
    def commit_a_turn(self, made: writes.Guarded) -> None:
        self.send_guarded(made)

    @rule(made=writes.replaces())
    def replace(self, made: writes.Guarded) -> None:
        self.send_guarded(made)

    @rule(made=st.one_of(writes.pops(), writes.rewindings()))
    def rewind(self, made: writes.Guarded) -> None:
        self.send_guarded(made)

    @rule(made=st.one_of(writes.amends(), writes.states()))
    def amend(self, made: writes.Guarded) -> None:
        self.send_guarded(made)

    @rule(made=writes.noting_turns())
    def note(self, made: writes.Guarded) -> None:
        self.send_guarded(made)

    @rule(made=writes.tombstonings())
    def tombstone(self, made: writes.Guarded) -> None:
        self.send_guarded(made)

    @rule(made=writes.branchings())
    def branch(self, made: writes.Guarded) -> None:
        self.send_guarded(made)

    @rule(made=writes.appends())
    def append(self, made: writes.Guarded) -> None:
        self.send_guarded(made)

    @rule(made=context_draws.compactions())
    def compact(self, made: writes.Guarded) -> None:
        self.send_guarded(made)

    @rule(made=writes.appends())
    def append_freely(self, made: writes.Guarded) -> None:
        """The plain case, often enough that there is something to change and to read."""
        self.send_guarded(writes.Guarded(made.command, "fit"))

    @rule(command=st.one_of(writes.session_writes(), writes.copies(), writes.endings()))
    def change_session(self, command: Command[Any]) -> None:
        self.send(command)

    @rule(command=runs.updates(), guard=draws.guards)
    def change_run(self, command: UpdateRun, guard: str) -> None:
        run = self.model.read([GetRun(tenant=command.tenant, id=command.id)])[0]
        session = "s1" if run is None else run.session
        given = self.guard(command.tenant, session, guard)
        self.send(msgspec.structs.replace(command, guard=given))

    @rule(command=writes.notings())
    def annotate(self, command: Command[Any]) -> None:
        self.send(command)

    @rule(command=writes.side_writes())
    def write_beside(self, command: Command[Any]) -> None:
        self.send(command)

    @rule(command=writes.takes())
    def take(self, command: Command[Any]) -> None:
        self.send(command)

    @rule(
        tenant=draws.tenants,
        session=draws.sessions,
        mine=st.booleans(),
        renew=st.booleans(),
        ttl_us=st.sampled_from((0, writes.LEASE_US)),
    )
    def renew_or_release(
        self, tenant: str, session: str, mine: bool, renew: bool, ttl_us: int
    ) -> None:
        lease = self.model.read([GetLease(tenant=tenant, session=session)])[0]
        grant: dict[str, Any] = {"owner": "ann", "token": "k1", "fence": 1}
        if mine and lease is not None:
            grant = {"owner": lease.owner, "token": lease.token, "fence": lease.fence}
        if renew:
            self.send(RenewLease(tenant=tenant, session=session, ttl_us=ttl_us, **grant))
        else:
            self.send(ReleaseLease(tenant=tenant, session=session, **grant))

    @rule(command=writes.vacuums())
    def vacuum(self, command: Command[Any]) -> None:
        self.send(command)

    @rule(tenant=draws.tenants)
    def sweep(self, tenant: str) -> None:
        """How the rows are chunked is the backend's affair; that all of them go is not."""
        command = SweepPurged(tenant=tenant, limit=SWEEP_LIMIT)
        for backend in (self.model, self.subject):
            sweeps = 0
            while backend.write(command):
                sweeps += 1
                assert sweeps < SWEEPS_MAX, "the sweep does not end"

    @rule(tenant=draws.tenants, again=st.sampled_from((False, False, False, True)))
    def move(self, tenant: str, again: bool) -> None:
        """Looked at as a copy would, and brought once more, which changes nothing."""
        wanted = moved.everything(tenant, self.model)
        self.compare("rows", wanted, moved.everything(tenant, self.subject))
        for command in moved.again(tenant, self.model) if again else ():
            self.send(command)

    @precondition(lambda self: self.sent)
    @rule(which=st.integers(0, FORGOTTEN_AFTER))
    def repeat(self, which: int) -> None:
        """A client that lost the answer sends the very same value again."""
        self.send(self.sent[which % len(self.sent)])

    @rule(seconds=st.sampled_from((0.000001, 0.5, 30, 61, -2)))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(query=questions.anything)
    def question(self, query: Query[Any]) -> None:
        self.ask(query)

    @invariant()
    def both_show_the_same(self) -> None:
        everything = SessionFilter(deleted=True)
        for tenant in ("default", "other"):
            asked: list[Query[Any]] = [
                ListSessions(tenant=tenant, where=everything, total=True),
                ListRuns(tenant=tenant, total=True),
            ]
            for session in draws.SESSIONS:
                place: dict[str, Any] = {"tenant": tenant, "session": session}
                asked += [
                    GetHead(tenant=tenant, id=session),
                    ReadMessages(deleted=True, **place),
                    ListNodes(notes=True, resolve=True, **place),
                    ReadContext(**place),
                ]
            self.ask_all(asked)


def outcome(call: Callable[[], Any]) -> Any:
    """An answer, or the error of it as something that can be compared."""
    try:
        return call()
    except LedgerstoneError as error:
        # The reason is prose; everything a program could look at must be the same.
        fields = {name: value for name, value in vars(error).items() if name != "reason"}
        return type(error), fields


def same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(got, dict) and list(got) != list(wanted):
        return False  # mappings come in a promised order
    return type(got) is type(wanted) and bool(got == wanted)


def difference(asked: object, wanted: object, got: object) -> str:
    kind = type(asked).__name__
    return f"\n{kind} {show(asked)}\nmodel    {show(wanted)}\nsubject  {show(got)}"


def show(value: object) -> str:
    """Every field: the records' own short form would hide what differs."""
    try:
        return repr(msgspec.to_builtins(value, builtin_types=(bytes,)))
    except (TypeError, UnicodeEncodeError):
        return repr(value)


def machine_of(
    model: Make, subject: Make, kind: type[LedgerMachine] = LedgerMachine
) -> type[LedgerMachine]:
    """The machine over two ways to make a backend."""
    places = {"make_model": staticmethod(model), "make_subject": staticmethod(subject)}
    return type("LedgerMachine", (kind,), places)
