"""Tickets: opened by a commit, decided by anybody, once."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple, TypeVar

import msgspec

from ledgerstone import ids
from ledgerstone.commands import tickets as commands
from ledgerstone.commands.tickets import TicketFilter
from ledgerstone.errors import (
    AlreadyExists,
    SessionBindingMismatch,
    SessionNotFound,
    TicketNotFound,
)
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.heads import save_head
from ledgerstone.handlers.nodes import node_by_id, stretches
from ledgerstone.handlers.paging import first_fitting, load_missing, page_of
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.work import put_batch
from ledgerstone.records.sessions import Page
from ledgerstone.records.tickets import Ticket
from ledgerstone.rules import tickets as rules
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.tickets import wake_up
from ledgerstone.tables.graph import BRANCHES
from ledgerstone.tables.sessions import HEADS, SESSIONS, SESSIONS_BY_ID, Head, SessionRow
from ledgerstone.tables.table import Index, Key
from ledgerstone.tables.tickets import (
    TICKETS,
    TICKETS_BY_CREATION,
    TICKETS_BY_EXPIRY,
    TICKETS_BY_SESSION,
    TICKETS_BY_STATUS,
    TicketRow,
)
from ledgerstone.tables.transaction import Tx

R = TypeVar("R", bound=msgspec.Struct)


async def open_tickets(tx: Tx, commit: Commit) -> None:
    """Write the tickets that a commit asks."""
    command, effects = commit.command, []
    for new in command.tickets:
        if await _find_row(tx, command.tenant, new.id) is not None:
            raise AlreadyExists(new.id)
        ticket = rules.opened(new, command.session, commit.revision, commit.moment_us)
        _save(tx, command.tenant, commit.head.number, ticket)
        effects.append([ticket.id, ticket.digest])
    commit.effects["tickets"] = effects


def _save(tx: Tx, tenant: str, number: int, ticket: Ticket) -> Ticket:
    """Write a ticket; answers it as it will be read."""
    body = rules.encode(ticket)
    row = TicketRow(tenant=tenant, id=ticket.id, number=number, body=body, **rules.columns(ticket))
    tx.put(TICKETS, row)
    return rules.read(ticket.id, body, ticket.user)


async def find_ticket(tx: Tx, tenant: str, id: str) -> Ticket | None:
    """A ticket of a session that was not purged, or None."""
    found = await _find(tx, tenant, id)
    return None if found is None else found[0]


async def _find(tx: Tx, tenant: str, id: str) -> tuple[Ticket, int] | None:
    """The same with the number of the session."""
    found = await _find_row(tx, tenant, id)
    if found is None:
        return None
    row, session = found
    return rules.read(id, row.body, session.user), row.number


async def _find_row(tx: Tx, tenant: str, id: str) -> tuple[TicketRow, SessionRow] | None:
    row = await tx.get(TICKETS, tenant, id)
    session = None if row is None else await tx.get(SESSIONS, row.number)
    return None if row is None or session is None else (row, session)


async def need_head_at(tx: Tx, number: int, session: str) -> Head:
    """A private copy of the head of the session with this number."""
    head = await tx.get(HEADS, number)
    if head is None:
        raise SessionNotFound(session)
    return copy(head)


@handles(commands.GetTicket)
async def get_ticket(tx: Tx, query: commands.GetTicket) -> Ticket | None:
    return await find_ticket(tx, query.tenant, query.id)


@handles(commands.ResolveTicket)
async def resolve_ticket(tx: Tx, command: commands.ResolveTicket) -> Ticket:
    found = await _find(tx, command.tenant, command.id)
    if found is None:
        raise TicketNotFound(command.id)
    ticket, number = found
    if command.session is not None and command.session != ticket.session:
        raise SessionBindingMismatch(ticket.session, command.session)
    head = await need_head_at(tx, number, ticket.session)
    check_alive(ticket.session, head)
    settled = rules.decided(ticket, command.decision, command.arguments, tx.now_us)
    if settled is None:
        return ticket
    stored = _save(tx, command.tenant, number, settled)
    if command.batch is not None:
        await put_batch(tx, command.tenant, head, wake_up(stored, command.batch, command.queue))
        save_head(tx, head)
    return stored


@handles(commands.WithdrawTicket)
async def withdraw_ticket(tx: Tx, command: commands.WithdrawTicket) -> bool:
    found = await _find(tx, command.tenant, command.id)
    if found is None:
        return False
    ticket, number = found
    check_alive(ticket.session, await need_head_at(tx, number, ticket.session))
    if ticket.status != "open":
        return False
    _save(tx, command.tenant, number, rules.withdrawn(ticket, tx.now_us))
    return True


@handles(commands.ExpireTickets)
async def expire_tickets(tx: Tx, command: commands.ExpireTickets) -> list[Ticket]:
    """Settle what is over in the session that has waited for longest."""
    tenant = command.tenant
    head = await _first_due(tx, tenant)
    session = None if head is None else await tx.get(SESSIONS, head.number)
    if head is None or session is None:
        return []
    settled = []
    for row in await _due_tickets(tx, tenant, head.number, command.limit):
        ticket = rules.expired(rules.read(row.id, row.body, session.user), tx.now_us)
        settled.append(_save(tx, tenant, head.number, ticket))
        batch = wake_up(ticket, ids.derive("wake", "ticket", ticket.id), command.queue)
        await put_batch(tx, tenant, head, batch)
    save_head(tx, head)
    return settled


async def _first_due(tx: Tx, tenant: str) -> Head | None:
    """A private copy of the head of the session whose open ticket has been over for longest."""
    heads: dict[int, Head | None] = {}

    async def fitting(rows: list[TicketRow]) -> list[TicketRow]:
        await load_missing(tx, HEADS, heads, (row.number for row in rows))
        return [row for row in rows if is_alive(heads[row.number])]

    before = (tx.now_us + 1,)
    rows = await first_fitting(tx, TICKETS_BY_EXPIRY, (tenant,), fitting, 1, before=before)
    return copy(heads[rows[0].number]) if rows else None


def is_alive(head: Head | None) -> bool:
    """Whether a session is there, and not deleted."""
    return head is not None and head.deleted_us is None


async def _due_tickets(tx: Tx, tenant: str, number: int, limit: int) -> list[TicketRow]:
    """Open tickets of a session of which the time is over, chosen without their bodies."""
    columns = ("expires_us", "id", "status")
    due = sorted(
        (expires_us, id)
        for expires_us, id, status in await tx.scan_columns(TICKETS_BY_SESSION, columns, number)
        if status == "open" and expires_us is not None and expires_us <= tx.now_us
    )
    rows = await tx.get_many(TICKETS, [(tenant, id) for _, id in due[:limit]])
    return [row for row in rows if row is not None]


@handles(commands.ListTickets)
async def list_tickets(tx: Tx, query: commands.ListTickets) -> Page[Ticket]:
    """One page, oldest first; only those of a session that is named may be of a deleted one."""
    where, sessions = query.where, dict[int, SessionRow | None]()
    if where.session is not None:
        session = await tx.find(SESSIONS_BY_ID, query.tenant, where.session)
        if session is None:
            return Page([], False, None, 0 if query.total else None)
        sessions[session.number] = session
    index, prefix = _index_for(query, list(sessions))
    before = None if where.created_before_us is None else (where.created_before_us,)
    chosen = _Chosen(tx, where, sessions)
    total = None
    if query.total:
        places = await tx.scan_columns(index, _Place._fields, *prefix, before=before)
        total = len(await chosen.fitting([_Place(*place) for place in places]))
    wanted = query.offset + query.limit + 1
    rows = await first_fitting(
        tx, index, prefix, chosen.fitting, wanted, after=query.after, before=before
    )
    return page_of(query, rows, chosen.read, total)


def _index_for(query: commands.ListTickets, numbers: list[int]) -> tuple[Index[TicketRow], Key]:
    """Where the tickets of a list stand by age, among others."""
    if numbers:
        return TICKETS_BY_SESSION, (numbers[0],)
    if query.where.status is not None:
        return TICKETS_BY_STATUS, (query.tenant, query.where.status)
    return TICKETS_BY_CREATION, (query.tenant,)


class _Place(NamedTuple):
    """What a filter looks at."""

    number: int
    status: str
    run: str | None
    reason: str | None
    expires_us: int | None


P = TypeVar("P", _Place, TicketRow)


class _Chosen:
    """A filter of tickets, and the sessions that it met."""

    def __init__(self, tx: Tx, where: TicketFilter, sessions: dict[int, SessionRow | None]) -> None:
        self.tx = tx
        self.where = where
        self.sessions = sessions
        self.heads: dict[int, Head | None] = {}

    async def fitting(self, rows: list[P]) -> list[P]:
        rows = [row for row in rows if self._fits(row)]
        if self.where.session is None:
            await load_missing(self.tx, HEADS, self.heads, (row.number for row in rows))
            rows = [row for row in rows if is_alive(self.heads[row.number])]
        await load_missing(self.tx, SESSIONS, self.sessions, (row.number for row in rows))
        users = {number: one.user for number, one in self.sessions.items() if one is not None}
        wanted = self.where.user
        return [r for r in rows if r.number in users and wanted in (None, users[r.number])]

    def _fits(self, row: P) -> bool:
        where = self.where
        before_us = where.expires_before_us
        if before_us is not None and (row.expires_us is None or row.expires_us >= before_us):
            return False
        pairs = ((where.status, row.status), (where.run_id, row.run), (where.reason, row.reason))
        return all(wanted in (None, actual) for wanted, actual in pairs)

    def read(self, row: TicketRow) -> Ticket:
        """A ticket with the user of its session."""
        session = self.sessions[row.number]
        return rules.read(row.id, row.body, None if session is None else session.user)


async def check_still_asked(tx: Tx, head: Head, ticket: Ticket) -> None:
    """TicketStale when the message that asked was hidden, or no branch shows it any more."""
    if ticket.node is None:
        return
    row = await node_by_id(tx, head.number, ticket.node)
    if row is None or row.deleted_us is not None:
        raise rules.gone(ticket)
    if await _shows(tx, head, head.leaf, row.ord):
        return
    branches = []
    if head.named:
        branches = await tx.scan_columns(BRANCHES.primary, ("leaf",), head.number)
    for (leaf,) in branches:
        if await _shows(tx, head, leaf, row.ord):
            return
    raise rules.gone(ticket)


async def _shows(tx: Tx, head: Head, leaf: int, ord: int) -> bool:
    """Whether a node is on the path that ends at a leaf."""
    if leaf < ord:
        return False
    return any(one.first <= ord <= one.last for one in await stretches(tx, head, leaf))
