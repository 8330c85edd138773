"""Interrupted runs: kept as nodes beside the conversation, with a ticket for every question.

A node of the kind openai.run_state hangs at the message where the run stood, off the path; its
label is the branch, and the newest that is live counts. The body is {"state": RunState.to_json(),
"tickets": {call id: ticket id}, "left": [ticket ids of states before]}. A commit can ask, but not
withdraw: `left` says what is to be withdrawn, so that whoever comes next does it when the process
that should have died.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from agents import RunState
from msgspec import UNSET

from ledgerstone.adapters.openai_agents.history import BranchHistory
from ledgerstone.adapters.openai_agents.tools import Once, parsed
from ledgerstone.adapters.sync_async import each, of
from ledgerstone.clock import SystemClock
from ledgerstone.errors import InvalidValue, LeafMoved, NotSupported
from ledgerstone.records.nodes import Node
from ledgerstone.records.tickets import Ticket
from ledgerstone.rules.tickets import is_due

KIND = "openai.run_state"
REASON = "tool_approval"
WITHDRAWN = "Nobody decided on this call."


@dataclass(frozen=True)
class Question:
    """A tool call that waits for somebody."""

    call_id: str
    tool: str
    arguments: Any
    reason: str
    expires_s: float | None


@dataclass(frozen=True)
class Saved:
    """A state as it was kept, its tickets by call id, and where the branch stood and stands."""

    state: dict[str, Any]
    tickets: dict[str, Ticket]
    at: str | None
    leaf: str | None


def questions(
    state: RunState[Any, Any], *, reason: str | None, expires_s: float | None
) -> list[Question]:
    """What an interrupted run asks."""
    found = []
    for item in state.get_interruptions():
        if not item.call_id:
            raise InvalidValue("interruptions", f"{item.name!r} has neither a call id nor an id")
        tool = item.qualified_name or item.name or "tool"
        given = None if item.arguments is None else parsed(item.arguments)
        found.append(Question(item.call_id, tool, given, reason or REASON, expires_s))
    return found


async def save(
    history: BranchHistory, data: dict[str, Any] | None, asked: list[Question]
) -> list[Ticket]:
    """Keep a state in place of the one before; without one, only drop that."""
    before = await _pending(history)
    if not before and data is None:
        return []
    tickets = await _tickets(history, before)
    known = _by_call(before, tickets)
    if data is not None and len(before) == 1 and await _is_same(history, before[0], data):
        await _withdraw(history, _to_withdraw(tickets, known.values()))
        return [known[one.call_id] for one in asked if one.call_id in known]
    kept = {
        one.call_id: known[one.call_id]
        for one in asked
        if one.call_id in known and _asks_the_same(known[one.call_id], one)
    }
    to_withdraw = _to_withdraw(tickets, kept.values())
    if data is None and not to_withdraw:
        await history.tombstone([node.id for node in before])
        return []
    id, names = await _commit(history, data, asked, before, kept, to_withdraw)
    await _withdraw(history, to_withdraw)
    if data is None:
        await history.tombstone([id])
    found = [await of(history.store.tickets.get(name)) for name in names.values()]
    return [ticket for ticket in found if ticket is not None]


async def _is_same(history: BranchHistory, old: Node, data: dict[str, Any]) -> bool:
    """Whether this very state is kept, and for the place where the branch stands now."""
    return _text(old.body["state"]) == _text(data) and (old.parent or None) == await history.tip()


async def load(history: BranchHistory, *, rewind: bool) -> Saved | None:
    """The state that is kept for the branch; LeafMoved when that stands elsewhere by now, unless
    the caller is going to `rewind` it.
    """
    pending = await _pending(history)
    tickets = await _tickets(history, pending)
    known = _by_call(pending, tickets)
    await _withdraw(history, _to_withdraw(tickets, known.values()))
    if not pending or pending[0].body["state"] is None:
        return None
    node = pending[0]
    leaf = await history.tip()
    saved_at = node.parent or None
    if leaf != saved_at and not rewind:
        raise LeafMoved(history.branch, saved_at, leaf)
    tickets = await _in_time(history, pending, known)
    return Saved(node.body["state"], tickets, saved_at, leaf)


async def rewind(history: BranchHistory, saved: Saved) -> None:
    """Take the branch back to where the state was kept; LeafMoved when that is not there."""
    if saved.leaf == saved.at:
        return
    move = history.store.branches.move
    try:
        await of(
            move(
                history.session,
                history.branch,
                to=saved.at,
                expected=saved.leaf,
                lease=history.lease,
            )
        )
    except InvalidValue:
        # The place was cleared away.
        raise LeafMoved(history.branch, saved.at, saved.leaf) from None


def decide(state: RunState[Any, Any], tickets: dict[str, Ticket]) -> dict[str, Ticket]:
    """Tell the state what was decided; answers the tickets that allow a call."""
    approved = {}
    for item in state.get_interruptions():
        ticket = tickets.get(item.call_id or "")
        if ticket is None or ticket.status == "open":
            continue
        if ticket.approved:
            _check_edit(item, ticket)
            state.approve(item)
            approved[ticket.call_id] = ticket
            continue
        decision = ticket.decision
        said = WITHDRAWN if decision is None else decision.reason
        state.reject(item, rejection_message=said)
    return approved


def called(state: Any) -> Iterator[str]:
    """The calls that a state knows of, those of agents that serve as tools as well."""
    if isinstance(state, dict):
        yield from state.get("tool_invocations") or ()
    for one in state.values() if isinstance(state, dict) else state:
        if isinstance(one, dict | list):
            yield from called(one)


def is_edited(ticket: Ticket) -> bool:
    """Whether other arguments were approved than those that were asked about."""
    return ticket.decision is not None and ticket.decision.arguments is not UNSET


def _check_edit(item: Any, ticket: Ticket) -> None:
    if not is_edited(ticket):
        return
    for tool in getattr(item.agent, "tools", ()):
        known = getattr(tool, "qualified_name", None) == ticket.tool
        if known and isinstance(tool.on_invoke_tool, Once):
            return
    raise NotSupported(
        f"edited arguments of {ticket.tool!r}", hint="wrap the tool with session.once"
    )


async def _commit(
    history: BranchHistory,
    data: dict[str, Any] | None,
    asked: list[Question],
    before: list[Node],
    kept: dict[str, Ticket],
    to_withdraw: list[str],
) -> tuple[str, dict[str, str]]:
    """One commit: the state, its questions, and the end of the states before."""
    turn = history.store.turns.begin(
        history.session, branch=history.branch, lease=history.lease, create=history.create
    )
    turn.warns = False
    names = {}
    for one in asked:
        if one.call_id in kept:
            names[one.call_id] = kept[one.call_id].id
            continue
        ticket = turn.ask(
            one.call_id,
            tool=one.tool,
            arguments=one.arguments,
            reason=one.reason,
            expires_s=one.expires_s,
        )
        names[one.call_id] = ticket.id
    body = {"state": data, "tickets": names, "left": to_withdraw}
    node = turn.node(KIND, body, label=history.branch, on_path=False)
    turn.tombstone(*(one.id for one in before))
    await of(turn.commit())
    return node.id, names


def _asks_the_same(ticket: Ticket, question: Question) -> bool:
    # Only while it is open: an old yes must not be taken for an answer to a new question.
    same = _text([ticket.tool, ticket.arguments]) == _text([question.tool, question.arguments])
    return ticket.status == "open" and same


async def _pending(history: BranchHistory) -> list[Node]:
    """What is live, the newest first: more than one when several saved at the same moment."""
    found = history.store.nodes.iter(history.session, kind=KIND, label=history.branch, order="-ord")
    return [node async for node in each(found)]


async def _tickets(history: BranchHistory, nodes: list[Node]) -> dict[str, Ticket]:
    """All tickets that the nodes name, by id."""
    names = [name for node in nodes for name in node.body["tickets"].values()]
    names += [name for node in nodes for name in node.body.get("left", ())]
    found = [await of(history.store.tickets.get(name)) for name in dict.fromkeys(names)]
    return {ticket.id: ticket for ticket in found if ticket is not None}


def _by_call(nodes: list[Node], tickets: dict[str, Ticket]) -> dict[str, Ticket]:
    """Those of the state that counts."""
    names = nodes[0].body["tickets"] if nodes else {}
    return {key: tickets[name] for key, name in names.items() if name in tickets}


def _to_withdraw(tickets: dict[str, Ticket], kept: Iterable[Ticket]) -> list[str]:
    """Those that wait for an answer that nobody would take."""
    names = {one.id for one in kept}
    return [id for id, one in tickets.items() if one.status == "open" and id not in names]


async def _in_time(
    history: BranchHistory, nodes: list[Node], known: dict[str, Ticket]
) -> dict[str, Ticket]:
    """The tickets, those whose time is over withdrawn: no worker need be there to settle them."""
    now_us = SystemClock().now_us()
    late = [one.id for one in known.values() if one.status == "open" and is_due(one, now_us)]
    if not late:
        return known
    await _withdraw(history, late)
    return _by_call(nodes, await _tickets(history, nodes))


async def _withdraw(history: BranchHistory, names: Iterable[str]) -> None:
    for name in names:
        await of(history.store.tickets.cancel(name))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
