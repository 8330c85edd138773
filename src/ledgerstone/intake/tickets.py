"""What callers ask and decide about tool calls, checked and encoded once."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ledgerstone import ids
from ledgerstone.codec import decode_json, encode_json
from ledgerstone.commands.tickets import NewTicket, TicketFilter
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.content import Content
from ledgerstone.intake.work import span_us
from ledgerstone.records.decisions import ACTIONS, RESUME_MODES, Decision
from ledgerstone.records.parts import ToolCall
from ledgerstone.records.runs import Run, Waiting, WaitingTicket
from ledgerstone.records.tickets import (
    EXPIRY_ACTIONS,
    TICKET_STATUSES,
    Ticket,
)
from ledgerstone.rules.tickets import asked

_NO_CALL = "no message of this turn has this tool call; give tool and arguments"


def ask(
    content: Content,
    turn: str,
    call_id: str,
    *,
    tool: str | None,
    arguments: Any,
    reason: str | None,
    message: str | None,
    mode: str,
    response_schema: Any,
    expires_s: float | None,
    on_expiry: str,
    id: str | None,
) -> Ticket:
    """Add a ticket to a turn; the turn's run, if it has one, waits for it from then on."""
    call_id = ids.check_id(call_id, "call_id")
    node, call = _find_call(content, call_id)
    if tool is None:
        if call is None:
            raise InvalidValue("call_id", _NO_CALL)
        tool = call.name
    if arguments is UNSET:
        arguments = None if call is None else call.arguments
    schema = response_schema
    # From the turn, so that a repeated turn asks with the same id.
    derived = ids.derive("ticket", content.session, turn, call_id)
    new = NewTicket(
        id=derived if id is None else ids.check_id(id, "id"),
        call_id=call_id,
        tool=ids.check_name(tool, "tool"),
        arguments=encode_json(arguments, "arguments"),
        run_id=content.run_id,
        node=node,
        mode=checks.one_of(mode, RESUME_MODES, "mode"),
        reason=checks.maybe_text(reason, "reason"),
        message=checks.maybe_text(message, "message"),
        response_schema=None if schema is None else encode_json(schema, "response_schema"),
        ttl_us=None if expires_s is None else span_us(expires_s, "expires_s"),
        on_expiry=checks.one_of(on_expiry, EXPIRY_ACTIONS, "on_expiry"),
    )
    if any(new.id == other.id for other in content.more.get("tickets", ())):
        raise InvalidValue("id", f"ticket {new.id} is asked twice in this turn")
    content.extend("tickets", (new,))
    _wait(content, new)
    return asked(new, content.session)


def _find_call(content: Content, call_id: str) -> tuple[str | None, ToolCall | None]:
    """The last message of the turn with this call, and the call."""
    for message in reversed(content.messages):
        for call in message.tool_calls:
            if call.id == call_id:
                return message.id, call
    return None, None


def _wait(content: Content, new: NewTicket) -> None:
    """Let the run of the turn wait, for this ticket and those before it."""
    if content.run_id is None:
        return
    run: Run | None = content.more.get("run")
    old = None if run is None else run.waiting
    tickets = [] if old is None else old.tickets
    waits = WaitingTicket(
        id=new.id,
        call_id=new.call_id,
        tool=new.tool,
        arguments=decode_json(new.arguments),
        mode=new.mode,
        reason=new.reason,
    )
    tickets = [*tickets, waits]
    answers = all(ticket.mode == "use_decision_as_tool_result" for ticket in tickets)
    waiting = Waiting(
        reason="user_input" if answers else "tool_permission",
        ticket_ids=[ticket.id for ticket in tickets],
        tickets=tickets,
        message=new.message or (None if old is None else old.message),
    )
    content.set_run("waiting", {"waiting": waiting})


def decision_of(
    ticket: str,
    word: str,
    *,
    by: str,
    result: Any,
    reason: str | None,
    arguments: Any,
    id: str | None,
) -> tuple[Decision, bytes | None]:
    """The decision, and the edited arguments; the same words make the same decision id."""
    action = ACTIONS[checks.one_of(word, ACTIONS, "decision")]
    edited = None if arguments is UNSET else encode_json(arguments, "arguments")
    if edited is not None and action != "resume":
        raise InvalidValue("arguments", "they can only be edited by who approves")
    ids.check_name(by, "by")
    reason = checks.maybe_text(reason, "reason")
    content = encode_json([action, by, result, reason], "result")
    if id is None:
        id = ids.derive("decision", ticket, content.hex(), "" if edited is None else edited.hex())
    made = Decision(
        id=ids.check_id(id, "decision_id"), action=action, by=by, result=result, reason=reason
    )
    return made, edited


def ticket_filter(
    now_us: int,
    *,
    status: str | None,
    session: Any,
    user: str | None,
    run_id: Any,
    reason: str | None,
    older_than_s: float | None,
    expires_within_s: float | None,
) -> TicketFilter:
    older, within = older_than_s, expires_within_s
    return TicketFilter(
        status=checks.maybe_one_of(status, TICKET_STATUSES, "status"),
        session=checks.maybe_session(session),
        user=None if user is None else ids.check_id(user, "user"),
        run_id=checks.maybe_id(run_id, "run_id"),
        reason=checks.maybe_text(reason, "reason"),
        created_before_us=None if older is None else now_us - span_us(older, "older_than_s"),
        expires_before_us=(
            None if within is None else now_us + span_us(within, "expires_within_s") + 1
        ),
    )
