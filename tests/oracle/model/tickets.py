"""Tickets: opened by a commit, decided by anybody, once."""

from __future__ import annotations

from collections.abc import Iterator

from ledgerstone import ids
from ledgerstone.commands.tickets import (
    ExpireTickets,
    GetTicket,
    ListTickets,
    ResolveTicket,
    TicketFilter,
    WithdrawTicket,
)
from ledgerstone.errors import AlreadyExists, SessionBindingMismatch, TicketNotFound
from ledgerstone.records.sessions import Page
from ledgerstone.records.tickets import Ticket
from ledgerstone.rules import tickets as rules
from tests.oracle.model import paths
from tests.oracle.model.commits import Commit
from tests.oracle.model.standing import Standing, find, require, require_alive
from tests.oracle.model.state import Tx
from tests.oracle.model.ticket_marks import put_marks, ticket_marks
from tests.oracle.model.work import put_batch


def open_tickets(commit: Commit) -> None:
    """Write the tickets that a commit asks."""
    command, effects = commit.command, []
    for new in command.tickets:
        if (command.tenant, new.id) in commit.tx.state.ticket_ids:
            raise AlreadyExists(new.id)
        ticket = rules.opened(new, command.session, commit.revision, commit.moment_us)
        _save(commit.tx, commit.standing, ticket)
        effects.append([ticket.id, ticket.digest])
    commit.effects["tickets"] = effects


def _save(tx: Tx, standing: Standing, ticket: Ticket) -> Ticket:
    """Write a ticket; answers it as it will be read."""
    data = rules.encode(ticket)
    tx.state.tickets.put((standing.number, ticket.id), data)
    put_marks(ticket_marks(tx.state, standing.tenant, standing.number, ticket))
    return rules.read(ticket.id, data, standing.row.user)


def find_ticket(tx: Tx, tenant: str, id: str) -> Ticket | None:
    """A ticket of a session that was not purged, or None."""
    number = tx.state.ticket_ids.get((tenant, id))
    return None if number is None else _read(tx, tenant, number, id)


def _read(tx: Tx, tenant: str, number: int, id: str) -> Ticket:
    session = tx.state.sessions[(tenant, tx.state.session_ids[(number,)])]
    return rules.read(id, tx.state.tickets[(number, id)], session.user)


def get_ticket(tx: Tx, query: GetTicket) -> Ticket | None:
    """By id."""
    return find_ticket(tx, query.tenant, query.id)


def resolve_ticket(tx: Tx, command: ResolveTicket) -> Ticket:
    """Decide, once; the run is woken in the same transaction."""
    ticket = find_ticket(tx, command.tenant, command.id)
    if ticket is None:
        raise TicketNotFound(command.id)
    if command.session is not None and command.session != ticket.session:
        raise SessionBindingMismatch(ticket.session, command.session)
    standing = require_alive(tx, command.tenant, ticket.session)
    settled = rules.decided(ticket, command.decision, command.arguments, tx.now_us)
    if settled is None:
        return ticket
    stored = _save(tx, standing, settled)
    if command.batch is not None:
        put_batch(tx, standing, rules.wake_up(stored, command.batch, command.queue))
    return stored


def withdraw_ticket(tx: Tx, command: WithdrawTicket) -> bool:
    """Close an open ticket without a decision."""
    ticket = find_ticket(tx, command.tenant, command.id)
    if ticket is None:
        return False
    standing = require_alive(tx, command.tenant, ticket.session)
    if ticket.status != "open":
        return False
    _save(tx, standing, rules.withdrawn(ticket, tx.now_us))
    return True


def expire_tickets(tx: Tx, command: ExpireTickets) -> list[Ticket]:
    """Settle what is over in the session that has waited for longest."""
    due = [
        ticket
        for ticket in _open(tx, command.tenant)
        if rules.is_due(ticket, tx.now_us) and _is_alive(tx, command.tenant, ticket)
    ]
    due.sort(key=lambda ticket: (ticket.expires_us or 0, ticket.id))
    due = [ticket for ticket in due if ticket.session == due[0].session][: command.limit]
    if not due:
        return []
    standing = require(tx, command.tenant, due[0].session)
    settled = []
    for ticket in due:
        settled.append(_save(tx, standing, rules.expired(ticket, tx.now_us)))
        batch = ids.derive("wake", "ticket", ticket.id)
        put_batch(tx, standing, rules.wake_up(settled[-1], batch, command.queue))
    return settled


def _open(tx: Tx, tenant: str) -> Iterator[Ticket]:
    """Open tickets, oldest first."""
    for (_, _, id), number in tx.state.open_tickets.scan((tenant,)):
        yield _read(tx, tenant, number, id)


def _is_alive(tx: Tx, tenant: str, ticket: Ticket) -> bool:
    standing = find(tx, tenant, ticket.session)
    return standing is not None and standing.head.deleted_us is None


def list_tickets(tx: Tx, query: ListTickets) -> Page[Ticket]:
    """One page, oldest first."""
    found = [one for one in _candidates(tx, query) if _fits(one, query.where)]
    if query.where.session is None:
        found = [one for one in found if _is_alive(tx, query.tenant, one)]
    found.sort(key=_place)
    total = len(found) if query.total else None
    if query.after is not None:
        found = [one for one in found if _place(one) > query.after]
    items = found[query.offset : query.offset + query.limit]
    return Page(items, len(found) > query.offset + query.limit, None, total)


def _place(ticket: Ticket) -> tuple[int, str]:
    return (ticket.created_us, ticket.id)


def _candidates(tx: Tx, query: ListTickets) -> Iterator[Ticket]:
    tenant = query.tenant
    if query.where.session is not None:
        standing = find(tx, tenant, query.where.session)
        for key, _ in [] if standing is None else tx.state.tickets.scan((standing.number,)):
            yield _read(tx, tenant, *key)
    elif query.where.status == "open":
        yield from _open(tx, tenant)
    else:
        for (_, id), number in tx.state.ticket_ids.scan((tenant,)):
            yield _read(tx, tenant, number, id)


def _fits(ticket: Ticket, where: TicketFilter) -> bool:
    for wanted, actual in (
        (where.status, ticket.status),
        (where.user, ticket.user),
        (where.run_id, ticket.run_id),
        (where.reason, ticket.reason),
    ):
        if wanted is not None and wanted != actual:
            return False
    if where.created_before_us is not None and ticket.created_us >= where.created_before_us:
        return False
    if where.expires_before_us is None:
        return True
    return ticket.expires_us is not None and ticket.expires_us < where.expires_before_us


def check_still_asked(tx: Tx, standing: Standing, ticket: Ticket) -> None:
    """TicketStale when the message that asked was hidden, or no branch shows it any more."""
    if ticket.node is None:
        return
    row = paths.live_by_id(tx, standing, ticket.node)
    if row is None:
        raise rules.gone(ticket)
    leaves = [leaf for _, leaf in tx.state.branches.scan((standing.number,))]
    if not any(_shows(tx, standing, leaf, row.ord) for leaf in (standing.head.leaf, *leaves)):
        raise rules.gone(ticket)


def _shows(tx: Tx, standing: Standing, leaf: int, ord: int) -> bool:
    """Whether a node is an ancestor of a leaf, or the leaf; parents have smaller ords."""
    path = paths.upwards(tx, standing.number, leaf)
    return next((row.ord for row in path if row.ord <= ord), 0) == ord
