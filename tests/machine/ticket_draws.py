"""Random questions, decisions and tool calls, few enough that they meet."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from ledgerstone.codec import encode_json
from ledgerstone.commands import Command, Query
from ledgerstone.commands.executions import (
    Finish,
    FinishExecution,
    GetExecution,
    GetRecovery,
    ListExecutions,
    ListLost,
    RetryExecution,
    StartExecution,
)
from ledgerstone.commands.tickets import (
    ExpireTickets,
    GetTicket,
    ListTickets,
    NewTicket,
    ResolveTicket,
    TicketFilter,
    WithdrawTicket,
)
from ledgerstone.records.decisions import RESUME_MODES, Decision
from ledgerstone.records.tickets import EXPIRY_ACTIONS, TICKET_STATUSES
from tests.machine import draws

US = 1_000_000
TICKETS = tuple(f"t{n}" for n in range(1, 13))
EXECUTIONS = tuple(f"x{n}" for n in range(1, 10))

tickets = st.sampled_from(TICKETS)
executions = st.sampled_from(EXECUTIONS)
calls = st.sampled_from(tuple(f"c{n}" for n in range(1, 7)))
tools = st.sampled_from(("pay", "pay", "mail"))
arguments = st.sampled_from((b"{}", b"{}", b'{"a":1}', b"null", b'{"a":[1.5,"\\ud800"]}'))
reasons = st.sampled_from((None, "money", "risk"))
GUARDS = (*("fit",) * 20, *draws.GUARDS)
guards = st.sampled_from(GUARDS)
results = draws.small_json.map(lambda value: encode_json(value, "result"))


def seldom(wanted: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly None: what is said besides the ticket should mostly not contradict it."""
    return st.integers(0, 5).flatmap(lambda n: wanted if n == 5 else st.none())


class Step(NamedTuple):
    """A command, and how long after the one before it.

    `aim` points it at one of the things there are, None leaves it as it was drawn. `guard` says
    which guard it should come with.
    """

    command: Command[Any]
    aim: int | None
    guard: str
    wait_s: float


@st.composite
def new_tickets(draw: st.DrawFn) -> NewTicket:
    return NewTicket(
        id=draw(tickets),
        call_id=draw(calls),
        tool=draw(tools),
        arguments=draw(arguments),
        run_id=draw(st.one_of(st.none(), draws.runs)),
        node=draw(st.one_of(st.sampled_from((None, draws.FRESH, draws.FRESH)), draws.node_ids)),
        mode=draw(st.sampled_from(RESUME_MODES)),
        reason=draw(reasons),
        message=draw(st.sampled_from((None, "May I?"))),
        response_schema=draw(st.sampled_from((None, b'{"type":"object"}'))),
        ttl_us=draw(st.sampled_from((None, None, None, 0, 30 * US, 90 * US))),
        on_expiry=draw(st.sampled_from(EXPIRY_ACTIONS)),
    )


@st.composite
def finishes(draw: st.DrawFn) -> Finish:
    failed = draw(st.integers(0, 2)) == 0
    return Finish(
        id=draw(executions),
        result=None if failed else draw(st.one_of(st.none(), results)),
        error=draw(results) if failed else None,
        duration_ms=draw(st.sampled_from((None, None, 0, 7))),
    )


asked = st.lists(new_tickets(), min_size=1, max_size=2).map(tuple)
finished = st.lists(finishes(), max_size=1).map(tuple)


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    return Decision(
        id=draw(st.sampled_from(("d1", "d1", "d2"))),
        action=draw(st.sampled_from(("resume", "resume", "resume", "cancel"))),
        by=draw(st.sampled_from(("ann", "ann", "bob"))),
        result=draw(st.sampled_from((None, 1, True, {"b": 1, "a": [None]}))),
        reason=draw(st.sampled_from((None, "no"))),
    )


@st.composite
def resolutions(draw: st.DrawFn, tenant: str) -> ResolveTicket:
    return ResolveTicket(
        tenant=tenant,
        id=draw(tickets),
        decision=draw(decisions()),
        arguments=draw(seldom(arguments)),
        session=draw(seldom(draws.sessions)),
        batch=draw(st.sampled_from((None, "w1", "w7", "w8"))),
        queue=draw(st.sampled_from(("default", "side"))),
    )


@st.composite
def starts(draw: st.DrawFn, tenant: str) -> StartExecution:
    ticket = draw(st.one_of(st.none(), tickets, tickets))
    need = draw(calls) if ticket is None else draw(seldom(calls))
    tool = draw(tools) if ticket is None else draw(seldom(tools))
    return StartExecution(
        once=draw(st.booleans()),
        tenant=tenant,
        session=draw(draws.sessions),
        id=draw(executions),
        call_id=need,
        tool=tool,
        arguments=draw(seldom(arguments)),
        key=draw(st.sampled_from(("", "", "k1"))),
        message_id=draw(st.one_of(st.none(), draws.node_ids)),
        run_id=draw(st.one_of(st.none(), draws.runs)),
        ticket=ticket,
    )


@st.composite
def commands(draw: st.DrawFn) -> Command[Any]:
    tenant = draw(draws.tenants)
    kind = draw(st.integers(0, 17))
    if kind < 5:
        return draw(resolutions(tenant))
    if kind < 10:
        return draw(starts(tenant))
    if kind < 13:
        return FinishExecution(tenant=tenant, finish=draw(finishes()))
    if kind < 15:
        return RetryExecution(tenant=tenant, id=draw(executions), later=draw(st.booleans()))
    if kind < 17:
        return ExpireTickets(tenant=tenant, limit=draw(draws.limits), queue="default")
    return WithdrawTicket(tenant=tenant, id=draw(tickets))


@st.composite
def one_step(draw: st.DrawFn) -> Step:
    return Step(
        draw(commands()),
        draw(st.sampled_from((None, *range(9)))),
        draw(guards),
        draw(st.sampled_from((0, 0, 0, 0, 0.0015, 0.2, 20, 61))),
    )


steps = st.lists(one_step(), min_size=2, max_size=9)


@st.composite
def filters(draw: st.DrawFn) -> TicketFilter:
    times = st.sampled_from((None, None, draws.START_US, draws.START_US + 40 * US))
    return TicketFilter(
        status=draw(st.sampled_from((None, *TICKET_STATUSES))),
        session=draw(st.one_of(st.none(), draws.sessions)),
        user=draw(st.sampled_from((None, None, "u1", "u2"))),
        run_id=draw(st.one_of(st.none(), st.none(), draws.runs)),
        reason=draw(reasons),
        created_before_us=draw(times),
        expires_before_us=draw(times),
    )


@st.composite
def questions(draw: st.DrawFn) -> Query[Any]:
    common: dict[str, Any] = {"tenant": draw(draws.tenants)}
    after = st.tuples(st.sampled_from((0, draws.START_US, draws.START_US + US)), tickets)
    listed = ListTickets(
        where=draw(filters()),
        limit=draw(draws.limits),
        offset=draw(st.integers(0, 2)),
        after=draw(st.one_of(st.none(), after)),
        total=draw(st.booleans()),
        **common,
    )
    made = ListExecutions(
        session=draw(st.one_of(st.none(), draws.sessions)),
        message=draw(st.one_of(st.none(), st.none(), draws.node_ids)),
        run_id=draw(st.one_of(st.none(), st.none(), draws.runs)),
        unresolved=draw(st.booleans()),
        limit=draw(st.one_of(st.none(), draws.limits)),
        **common,
    )
    return draw(
        st.sampled_from(
            (
                listed,
                made,
                GetTicket(id=draw(tickets), **common),
                GetExecution(id=draw(executions), **common),
                GetRecovery(session=draw(draws.sessions), **common),
                ListLost(limit=draw(draws.limits), **common),
            )
        )
    )
