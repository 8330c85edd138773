"""Tickets: asked inside a commit, resolved by anybody, once."""

from __future__ import annotations

import msgspec

from ledgerstone.commands import Command, PageQuery, Query
from ledgerstone.records.decisions import Decision, ResumeMode
from ledgerstone.records.sessions import Page
from ledgerstone.records.tickets import ExpiryAction, Ticket


class NewTicket(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a commit asks; arguments and schema are canonical JSON."""

    id: str
    call_id: str
    tool: str
    arguments: bytes
    run_id: str | None = None
    node: str | None = None
    mode: ResumeMode = "replay_tool_call"
    reason: str | None = None
    message: str | None = None
    response_schema: bytes | None = None
    ttl_us: int | None = None
    on_expiry: ExpiryAction = "reject"


class ResolveTicket(Command[Ticket], frozen=True, kw_only=True):
    """Decide, once. The same decision id and content again: the first answer. `batch` is the id of
    the wake-up that is enqueued for the run in the same transaction; None: no wake-up.

    TicketNotFound, TicketClosed; SessionBindingMismatch when `session` is given and another.
    """

    id: str
    decision: Decision
    arguments: bytes | None = None
    session: str | None = None
    batch: str | None = None
    queue: str


class WithdrawTicket(Command[bool], frozen=True, kw_only=True):
    """Nobody needs to decide any more; False when it was not open."""

    id: str


class ExpireTickets(Command[list[Ticket]], frozen=True, kw_only=True):
    """Settle open tickets of which the time is over, as each of them says; runs are woken.

    One session at a time, the one that has waited for longest: an answer that is not empty may
    leave more to do.
    """

    limit: int
    queue: str


class GetTicket(Query[Ticket | None], frozen=True, kw_only=True):
    """By id, anywhere in the tenant."""

    id: str


class TicketFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tickets are meant; None means any."""

    status: str | None = "open"
    session: str | None = None
    user: str | None = None
    run_id: str | None = None
    reason: str | None = None
    created_before_us: int | None = None
    expires_before_us: int | None = None


class ListTickets(PageQuery[Page[Ticket]], frozen=True, kw_only=True):
    """Oldest first; `after` is (created_us, id) of the last item of the page before."""

    where: TicketFilter = TicketFilter()
    after: tuple[int, str] | None = None
