"""What may happen to tickets and executions, as rules of the machine."""

from __future__ import annotations

from inspect import getmembers
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RULE_MARKER, RuleBasedStateMachine, invariant, rule

from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command, Guard, Query
from ledgerstone.commands.executions import (
    FinishExecution,
    ListExecutions,
    RetryExecution,
    StartExecution,
)
from ledgerstone.commands.tickets import ListTickets, ResolveTicket, TicketFilter, WithdrawTicket
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.ports.backend import Backend
from ledgerstone.records.executions import Execution
from ledgerstone.records.tickets import Ticket
from tests.machine import draws, ticket_draws, writes

KEPT = (
    "append_freely",
    "ask_about_tickets",
    "ask_in_a_commit",
    "change_session",
    "decide_and_call",
    "renew_or_release",
    "repeat",
    "rewind",
    "sweep",
    "take",
    "wait",
)
EVERYTHING = TicketFilter(status=None)


def at_tickets(machine: type[RuleBasedStateMachine]) -> type[RuleBasedStateMachine]:
    """The same machine with nothing but tickets on its mind, so that more of it comes together."""
    rules = (name for name, found in getmembers(machine) if hasattr(found, RULE_MARKER))
    return type("AtTickets", (machine,), {name: None for name in rules if name not in KEPT})


class TicketRules(RuleBasedStateMachine):
    """The part of the machine that asks, decides and calls."""

    model: Backend
    clock: ManualClock
    sent: list[Command[Any]]
    if TYPE_CHECKING:

        def send(self, command: Command[Any]) -> Any: ...
        def ask(self, query: Query[Any]) -> Any: ...
        def ask_all(self, queries: list[Query[Any]]) -> None: ...
        def guard(self, tenant: str, session: str, word: str) -> Guard: ...
        def filled_in(self, command: CommitTurn) -> CommitTurn: ...

    @rule(
        made=writes.appends(),
        asked=ticket_draws.asked,
        finished=ticket_draws.finished,
        aim=st.sampled_from((None, 0, 1, 2)),
        guard=ticket_draws.guards,
        main=st.sampled_from((True, True, True, False)),
    )
    def ask_in_a_commit(
        self,
        made: writes.Guarded,
        asked: Any,
        finished: Any,
        aim: int | None,
        guard: str,
        main: bool,
    ) -> None:
        """Most tickets are about the last message of their commit, on the branch in use."""
        command = self.filled_in(made.command)
        if main:
            command = msgspec.structs.replace(command, branch="main", turn=f"ask {len(self.sent)}")
        node = command.nodes[-1].id
        if aim is not None:
            made_here = self.made_in(command.tenant, command.session)
            finished = [_changed(one, [{"id": x.id} for x in made_here], aim) for one in finished]
            finished = tuple(finished) if made_here else ()
        tickets = tuple(
            msgspec.structs.replace(one, node=node) if one.node == draws.FRESH else one
            for one in asked
        )
        self.send(
            msgspec.structs.replace(
                command,
                kind="turn",
                guard=self.guard(command.tenant, command.session, guard),
                tickets=tickets,
                executions=finished,
            )
        )

    @rule(steps=ticket_draws.steps)
    def decide_and_call(self, steps: list[ticket_draws.Step]) -> None:
        """Several steps in a row: one alone would hardly ever meet the other that it needs."""
        for step in steps:
            self.clock.advance(step.wait_s)
            command = step.command if step.aim is None else self.aimed_at(step.command, step.aim)
            session = self.session_of(command)
            if session is not None:
                guard = self.guard(command.tenant, session, step.guard)
                command = msgspec.structs.replace(command, guard=guard)
            self.send(command)

    def aimed_at(self, command: Command[Any], aim: int) -> Any:
        """The command for a ticket or an execution that is there, if there is any."""
        tickets, made = self.standing(command.tenant)
        if isinstance(command, ResolveTicket | WithdrawTicket):
            waiting = [one for one in tickets if one.status == "open"] if aim % 4 else tickets
            return _changed(command, [{"id": one.id} for one in waiting], aim)
        if isinstance(command, StartExecution) and command.ticket is not None:
            said_yes = [one for one in tickets if one.approved] if aim % 4 else tickets
            places = [{"ticket": one.id, "session": one.session} for one in said_yes]
            return _changed(command, places, aim)
        if isinstance(command, StartExecution):
            twins = [{"session": x.session, "call_id": x.call_id, "tool": x.tool} for x in made]
            fresh = [{"session": "s1"}, {"session": "s2"}]
            return _changed(command, twins if twins and aim % 2 else fresh, aim)
        if isinstance(command, FinishExecution) and made:
            finish = msgspec.structs.replace(command.finish, id=made[aim % len(made)].id)
            return msgspec.structs.replace(command, finish=finish)
        if isinstance(command, RetryExecution):
            return _changed(command, [{"id": one.id} for one in made], aim)
        return command

    def standing(self, tenant: str) -> tuple[list[Ticket], list[Execution]]:
        page, made = self.model.read(
            [ListTickets(tenant=tenant, where=EVERYTHING), ListExecutions(tenant=tenant)]
        )
        return page.items, made

    def made_in(self, tenant: str, session: str) -> list[Execution]:
        return [one for one in self.standing(tenant)[1] if one.session == session]

    def session_of(self, command: Command[Any]) -> str | None:
        """The session whose guard the command carries; None when it has none."""
        if isinstance(command, StartExecution):
            return command.session
        if isinstance(command, FinishExecution):
            id = command.finish.id
        elif isinstance(command, RetryExecution):
            id = command.id
        else:
            return None
        found = [one for one in self.standing(command.tenant)[1] if one.id == id]
        return found[0].session if found else "s1"

    @rule(query=ticket_draws.questions())
    def ask_about_tickets(self, query: Query[Any]) -> None:
        self.ask(query)

    @invariant()
    def both_have_the_same_tickets(self) -> None:
        for tenant in ("default", "other"):
            tickets = ListTickets(tenant=tenant, where=EVERYTHING, total=True)
            self.ask_all([tickets, ListExecutions(tenant=tenant)])


def _changed(command: Any, found: list[dict[str, Any]], aim: int) -> Any:
    return msgspec.structs.replace(command, **found[aim % len(found)]) if found else command
