"""What may happen to work, as rules of the machine."""

from __future__ import annotations

from inspect import getmembers
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RULE_MARKER, RuleBasedStateMachine, invariant, rule

from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command, Guard, Query
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.work import (
    AbandonClaim,
    CancelWork,
    ClaimWork,
    DropDead,
    EnqueueWork,
    FailClaim,
    ListDead,
    ListWork,
    ParkClaim,
    PeekWork,
    RenewClaim,
    ReplayWork,
)
from ledgerstone.ports.backend import Backend
from tests.machine import draws, work_draws

KEPT = (
    "ask_about_work",
    "change_session",
    "complete_what_is_claimed",
    "count_what_ended",
    "interrupt_what_waits",
    "prune_what_ended",
    "renew_or_release",
    "repeat",
    "take",
    "wait",
    "work_a_while",
    "write_beside",
)


def at_work(machine: type[RuleBasedStateMachine]) -> type[RuleBasedStateMachine]:
    """The same machine with nothing but work on its mind, so that more of it comes together."""
    rules = (name for name, found in getmembers(machine) if hasattr(found, RULE_MARKER))
    return type("AtWork", (machine,), {name: None for name in rules if name not in KEPT})


class WorkRules(RuleBasedStateMachine):
    """The half of the machine that works; the other half says how commands are sent."""

    model: Backend
    clock: ManualClock
    if TYPE_CHECKING:

        def send(self, command: Command[Any]) -> Any: ...
        def ask(self, query: Query[Any]) -> Any: ...
        def ask_all(self, queries: list[Query[Any]]) -> None: ...
        def guard(self, tenant: str, session: str, word: str) -> Guard: ...

    @rule(steps=work_draws.steps)
    def work_a_while(self, steps: list[work_draws.Step]) -> None:
        """Several steps in a row: one alone would hardly ever meet the other that it needs."""
        for step in steps:
            self.clock.advance(step.wait_s)
            command = step.command if step.aim is None else self.aimed(step.command, step.aim)
            if isinstance(command, ClaimWork):
                guard = self.guard(command.tenant, command.session, step.guard)
                command = msgspec.structs.replace(command, guard=guard)
            self.send(command)

    def aimed(self, command: Command[Any], aim: int) -> Command[Any]:
        """The command for work that is there, if there is any."""
        tenant = command.tenant
        if isinstance(command, ReplayWork | DropDead):
            dead = self.model.read([ListDead(tenant=tenant)])[0].items
            return _changed(command, [{"batch": one.id} for one in dead], aim)
        if isinstance(command, EnqueueWork):
            batch = msgspec.structs.replace(command.batch, session=("s1", "s2")[aim % 2])
            return msgspec.structs.replace(command, batch=batch)
        queries = [ListWork(tenant=tenant, session=session) for session in draws.SESSIONS]
        queued = [batch for found in self.model.read(queries) for batch in found]
        if isinstance(command, CancelWork):
            places = [{"session": batch.session, "batch": batch.id} for batch in queued]
            return _changed(command, places, aim)
        if isinstance(command, ClaimWork):
            found = _changed(command, [{"session": batch.session} for batch in queued], aim)
            self.send(work_draws.lease_for(found))
            return found
        if isinstance(command, RenewClaim | AbandonClaim | FailClaim | ParkClaim):
            claims = [
                {"session": b.session, "claim": b.claim, "token": work_draws.token_of(b.claim)}
                for b in queued
                if b.claim is not None
            ]
            return _changed(command, claims, aim)
        return command

    @rule(
        tenant=draws.tenants,
        session=draws.sessions,
        turn=draws.turns,
        more=work_draws.in_a_commit,
        release=st.booleans(),
    )
    def complete_what_is_claimed(
        self, tenant: str, session: str, turn: str, more: Any, release: bool
    ) -> None:
        """What a good worker does; drawn freely it would hardly ever come to pass."""
        queued = self.model.read([ListWork(tenant=tenant, session=session)])[0]
        claims = [work_draws.completed(batch.claim) for batch in queued if batch.claim is not None][
            :1
        ]
        self.send(
            CommitTurn(
                tenant=tenant,
                session=session,
                turn=turn,
                kind="turn",
                complete=tuple(claims),
                enqueue=more,
                release=release,
                guard=self.guard(tenant, session, "fit"),
            )
        )

    @rule(query=work_draws.questions())
    def ask_about_work(self, query: Query[Any]) -> None:
        self.ask(query)

    @invariant()
    def both_have_the_same_work(self) -> None:
        for tenant in ("default", "other"):
            queues, sessions = sorted(set(work_draws.QUEUES)), draws.SESSIONS
            self.ask_all(
                [
                    ListDead(tenant=tenant, total=True),
                    *(PeekWork(tenant=tenant, queue=queue) for queue in queues),
                    *(ListWork(tenant=tenant, session=session) for session in sessions),
                ]
            )


def _changed(command: Any, found: list[dict[str, Any]], aim: int) -> Any:
    return msgspec.structs.replace(command, **found[aim % len(found)]) if found else command
