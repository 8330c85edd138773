"""What a ticket stands for, and what a decision makes of it."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.codec import decode_json, encode_json, encode_struct
from ledgerstone.commands.tickets import NewTicket
from ledgerstone.commands.work import NewBatch
from ledgerstone.errors import TicketClosed, TicketStale
from ledgerstone.records.decisions import Decision
from ledgerstone.records.runs import Waiting
from ledgerstone.records.tickets import Ticket
from ledgerstone.rules.bodies import read_struct
from ledgerstone.rules.rows import record_of
from ledgerstone.rules.work import wake

EXPIRY_BY = "ledger.expiry"
"""Who decided when nobody did in time."""

_decoder = msgspec.json.Decoder(Ticket)


def digest(session: str, revision: int, call_id: str, tool: str, arguments: bytes) -> str:
    """The name of exactly this call, as it was asked at this revision of its session."""
    found = hashlib.sha256()
    for text in ("ticket", session, str(revision), call_id, tool):
        data = text.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8, "big"))
        found.update(data)
    found.update(arguments)
    return found.hexdigest()


def asked(new: NewTicket, session: str) -> Ticket:
    """The question, before a commit says when and at which revision it was asked."""
    schema = new.response_schema
    return record_of(
        Ticket,
        new,
        session=session,
        arguments=decode_json(new.arguments),
        response_schema=None if schema is None else decode_json(schema),
    )


def opened(new: NewTicket, session: str, revision: int, moment_us: int) -> Ticket:
    """The ticket that a commit asks."""
    return replace(
        asked(new, session),
        revision=revision,
        digest=digest(session, revision, new.call_id, new.tool, new.arguments),
        expires_us=None if new.ttl_us is None else moment_us + new.ttl_us,
        created_us=moment_us,
        updated_us=moment_us,
    )


def encode(ticket: Ticket) -> bytes:
    """The ticket as it is stored: the user is the session's, and may change there."""
    return encode_struct(replace(ticket, user=None), "ticket")


def columns(ticket: Ticket) -> dict[str, Any]:
    """What its row says beside the body, so that it is found by it."""
    return {
        "run": ticket.run_id,
        "status": ticket.status,
        "reason": ticket.reason,
        "created_us": ticket.created_us,
        "expires_us": ticket.expires_us,
    }


def read(id: str, data: bytes, user: str | None = None) -> Ticket:
    """A stored ticket; Corrupt when it does not decode."""
    ticket = read_struct(_decoder, data, "tickets", id)
    return ticket if user is None else replace(ticket, user=user)


def decided(
    ticket: Ticket, decision: Decision, arguments: bytes | None, now_us: int
) -> Ticket | None:
    """The ticket with its decision; None when this very decision was made before.

    TicketClosed when it was decided otherwise, withdrawn, or its time is over.
    """
    if arguments is not None:
        decision = replace(decision, arguments=decode_json(arguments))
    old = ticket.decision
    if ticket.status != "open":
        if old is not None and _said(old) == _said(decision):
            return None
        late = old is not None and old.expired
        raise TicketClosed(ticket.id, "expired" if late else ticket.status)
    if is_due(ticket, now_us):
        raise TicketClosed(ticket.id, "expired")
    return _settled(ticket, decision, arguments, now_us)


def _said(decision: Decision) -> bytes:
    """All that makes two decisions the same; as bytes, since True is not 1 in JSON."""
    said = [decision.id, decision.action, decision.by, decision.result, decision.reason]
    if decision.arguments is not msgspec.UNSET:
        said.append(decision.arguments)
    return encode_json(said, "decision")


def is_due(ticket: Ticket, now_us: int) -> bool:
    """Whether the time to decide is over."""
    return ticket.expires_us is not None and ticket.expires_us <= now_us


def expired(ticket: Ticket, now_us: int) -> Ticket:
    """The ticket as nobody's decision leaves it."""
    decision = Decision(
        id=ids.derive("expiry", ticket.id),
        action="resume" if ticket.on_expiry == "approve" else "cancel",
        by=EXPIRY_BY,
        expired=True,
    )
    return _settled(ticket, decision, None, now_us)


def _settled(ticket: Ticket, decision: Decision, arguments: bytes | None, now_us: int) -> Ticket:
    name = ticket.digest
    if arguments is not None:
        name = digest(ticket.session, ticket.revision, ticket.call_id, ticket.tool, arguments)
    return replace(
        ticket,
        status="resolved",
        decision=replace(decision, decided_us=now_us),
        digest=name,
        updated_us=now_us,
    )


def withdrawn(ticket: Ticket, now_us: int) -> Ticket:
    """The ticket, when nobody needs to decide any more."""
    return replace(ticket, status="withdrawn", updated_us=now_us)


def check_approved(ticket: Ticket) -> None:
    """TicketClosed unless somebody said yes."""
    if ticket.status != "resolved":
        raise TicketClosed(ticket.id, ticket.status)
    if not ticket.approved:
        reason = ticket.decision.reason if ticket.decision is not None else None
        raise TicketClosed(ticket.id, "cancelled", reason or "")


def check_same_call(
    ticket: Ticket, call_id: str | None, tool: str | None, arguments: bytes | None
) -> bytes:
    """The approved arguments; TicketStale when what would run is something else."""
    if call_id is not None and call_id != ticket.call_id:
        raise TicketStale(ticket.id, "it is about another call")
    if arguments is None:
        arguments = encode_json(ticket.effective_arguments, "arguments")
    name = digest(ticket.session, ticket.revision, ticket.call_id, tool or ticket.tool, arguments)
    if name != ticket.digest:
        raise TicketStale(ticket.id, "tool or arguments are not those that were approved")
    return arguments


def gone(ticket: Ticket) -> TicketStale:
    """For when the message that asked is no longer part of the conversation."""
    return TicketStale(ticket.id, "the message that asked is no longer part of the conversation")


def wake_up(ticket: Ticket, batch: str, queue: str) -> NewBatch:
    """The work that a decision makes for whoever resumes the run."""
    return wake(
        "ticket",
        ticket.session,
        batch,
        queue,
        ticket=ticket.id,
        run=ticket.run_id,
        call_id=ticket.call_id,
        action=None if ticket.decision is None else ticket.decision.action,
    )


def stamped(waiting: Waiting | None, moment_us: int) -> Waiting | None:
    """What a run waits for; tickets that are new to it get the time of the commit."""
    if waiting is None or all(ticket.updated_us for ticket in waiting.tickets):
        return waiting
    tickets = [replace(one, updated_us=one.updated_us or moment_us) for one in waiting.tickets]
    return replace(waiting, tickets=tickets)


def flaw(ticket: Ticket, told: str | None) -> str | None:
    """What is wrong with a stored ticket, given the digest that its turn told; None when nothing.

    A decision may have edited the arguments, but not what was asked.
    """
    call = (ticket.session, ticket.revision, ticket.call_id, ticket.tool)
    if digest(*call, encode_json(ticket.arguments, "arguments")) != told:
        return "not what its turn asked"
    if digest(*call, encode_json(ticket.effective_arguments, "arguments")) != ticket.digest:
        return "its digest is of something else"
    return None
