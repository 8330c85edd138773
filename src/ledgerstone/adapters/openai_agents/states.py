"""Interrupted runs: kept as nodes beside the conversation, with a ticket for every question.

A node of the kind openai.run_state hangs at the message where the run stood, off the path; its
label is the branch, and at most one is live on each. The body is {"state": RunState.to_json(),
"tickets": {call id: ticket id}}.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agents import RunState
from msgspec import UNSET

from ledgerstone.adapters.faces import each, of
from ledgerstone.adapters.openai_agents.place import Place, tip
from ledgerstone.adapters.openai_agents.tools import Once
from ledgerstone.errors import InvalidValue, LeafMoved, NotSupported
from ledgerstone.records.nodes import Node
from ledgerstone.records.tickets import Ticket

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
    """A state as it was kept, and its tickets by call id."""

    state: dict[str, Any]
    tickets: dict[str, Ticket]


def questions(
    state: RunState[Any, Any], *, reason: str | None, expires_s: float | None
) -> list[Question]:
    """What an interrupted run asks."""
    found = []
    for item in state.get_interruptions():
        if not item.call_id:
            raise InvalidValue("interruptions", f"{item.name!r} has neither a call id nor an id")
        tool = item.qualified_name or item.name or "tool"
        given = parsed(item.arguments)
        found.append(Question(item.call_id, tool, given, reason or REASON, expires_s))
    return found


def parsed(arguments: str | None) -> Any:
    """The arguments of a call as a value, or as the text that they are."""
    if arguments is None:
        return None
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


async def save(place: Place, data: dict[str, Any] | None, asked: list[Question]) -> list[Ticket]:
    """Keep a state in place of the one before; without one, only drop that."""
    old = await _pending(place)
    known = {} if old is None else await _tickets(place, old)
    if data is None:
        if old is not None:
            await of(place.store.nodes.tombstone(place.session, [old.id], lease=place.lease))
            await _withdraw(place, known)
        return []
    if old is not None and await _is_same(place, old, data):
        return [known[one.call_id] for one in asked if one.call_id in known]
    names = await _commit(place, data, asked, old, known)
    left = {key: one for key, one in known.items() if names.get(key) != one.id}
    await _withdraw(place, left)
    tickets = [await of(place.store.tickets.get(name)) for name in names.values()]
    return [ticket for ticket in tickets if ticket is not None]


async def _is_same(place: Place, old: Node, data: dict[str, Any]) -> bool:
    """Whether this very state is kept, and for the place where the branch stands now."""
    return _text(old.body["state"]) == _text(data) and (old.parent or None) == await tip(place)


async def load(place: Place, *, rewind: bool) -> Saved | None:
    """The state that is kept for the branch; LeafMoved when that stands elsewhere by now."""
    node = await _pending(place)
    if node is None:
        return None
    leaf = await tip(place)
    saved_at = node.parent or None
    if leaf != saved_at:
        if not rewind:
            raise LeafMoved(place.branch, saved_at, leaf)
        await of(
            place.store.branches.move(
                place.session, place.branch, to=saved_at, expected=leaf, lease=place.lease
            )
        )
    return Saved(node.body["state"], await _tickets(place, node))


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
    place: Place,
    data: dict[str, Any],
    asked: list[Question],
    old: Node | None,
    known: dict[str, Ticket],
) -> dict[str, str]:
    """One commit: the state, its questions, and the end of the state before."""
    turn = place.store.turns.begin(
        place.session, branch=place.branch, lease=place.lease, create=place.create
    )
    names = {}
    for one in asked:
        before = known.get(one.call_id)
        if before is not None and _asks_the_same(before, one):
            names[one.call_id] = before.id
            continue
        ticket = turn.ask(
            one.call_id,
            tool=one.tool,
            arguments=one.arguments,
            reason=one.reason,
            expires_s=one.expires_s,
        )
        names[one.call_id] = ticket.id
    body = {"state": data, "tickets": names}
    turn.node(KIND, body, label=place.branch, on_path=False)
    if old is not None:
        turn.tombstone(old.id)
    await of(turn.commit())
    return names


def _asks_the_same(ticket: Ticket, question: Question) -> bool:
    # Only while it is open: an old yes must not be taken for an answer to a new question.
    same = _text([ticket.tool, ticket.arguments]) == _text([question.tool, question.arguments])
    return ticket.status == "open" and same


async def _pending(place: Place) -> Node | None:
    found = place.store.nodes.iter(
        place.session, kind=KIND, label=place.branch, order="-ord", limit=1
    )
    async for node in each(found):
        return node
    return None


async def _tickets(place: Place, node: Node) -> dict[str, Ticket]:
    found = {}
    for key, name in node.body["tickets"].items():
        ticket = await of(place.store.tickets.get(name))
        if ticket is not None:
            found[key] = ticket
    return found


async def _withdraw(place: Place, tickets: dict[str, Ticket]) -> None:
    for ticket in tickets.values():
        if ticket.status == "open":
            await of(place.store.tickets.cancel(ticket.id))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
