"""Tickets: opened by a commit, decided by anybody, once."""

from __future__ import annotations

from typing import Any

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
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.tickets import wake_up
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.heads import find_head, need_head
from ledgerstone.sql.paths import stretches
from ledgerstone.sql.tx import Tx
from ledgerstone.sql.work import put_batch


async def open_tickets(tx: Tx, commit: Commit) -> None:
    """Write the tickets that a commit asks."""
    command, effects = commit.command, []
    for new in command.tickets:
        if await tx.one("find_ticket", command.tenant, new.id) is not None:
            raise AlreadyExists(new.id)
        ticket = rules.opened(new, command.session, commit.revision, commit.moment_us)
        await _save(tx, command.tenant, commit.head, ticket)
        effects.append([ticket.id, ticket.digest])
    commit.effects["tickets"] = effects


async def _save(tx: Tx, tenant: str, head: HeadRow, ticket: Ticket) -> Ticket:
    """Write a ticket; answers it as it will be read."""
    body = rules.encode(ticket)
    await tx.run(
        "put_ticket",
        tenant,
        ticket.id,
        head.number,
        ticket.run_id,
        ticket.status,
        ticket.reason,
        ticket.created_us,
        ticket.expires_us,
        body,
    )
    return rules.read(ticket.id, body, ticket.user)


async def find_ticket(tx: Tx, tenant: str, id: str) -> Ticket | None:
    """A ticket of a session that was not purged, or None."""
    row = await tx.one("find_ticket", tenant, id)
    return None if row is None else rules.read(id, row[0], row[2])


async def get_ticket(tx: Tx, query: GetTicket) -> Ticket | None:
    """By id."""
    return await find_ticket(tx, query.tenant, query.id)


async def resolve_ticket(tx: Tx, command: ResolveTicket) -> Ticket:
    """Decide, once; the run is woken in the same transaction."""
    ticket = await find_ticket(tx, command.tenant, command.id)
    if ticket is None:
        raise TicketNotFound(command.id)
    if command.session is not None and command.session != ticket.session:
        raise SessionBindingMismatch(ticket.session, command.session)
    head = await need_head(tx, command.tenant, ticket.session)
    check_alive(ticket.session, head)
    settled = rules.decided(ticket, command.decision, command.arguments, tx.now_us)
    if settled is None:
        return ticket
    stored = await _save(tx, command.tenant, head, settled)
    if command.batch is not None:
        await put_batch(tx, command.tenant, head, wake_up(stored, command.batch, command.queue))
    return stored


async def withdraw_ticket(tx: Tx, command: WithdrawTicket) -> bool:
    """Close an open ticket without a decision."""
    ticket = await find_ticket(tx, command.tenant, command.id)
    if ticket is None:
        return False
    head = await need_head(tx, command.tenant, ticket.session)
    check_alive(ticket.session, head)
    if ticket.status != "open":
        return False
    await _save(tx, command.tenant, head, rules.withdrawn(ticket, tx.now_us))
    return True


async def expire_tickets(tx: Tx, command: ExpireTickets) -> list[Ticket]:
    """Settle what is over in the session that has waited for longest."""
    row = await tx.one("first_due", command.tenant, tx.now_us)
    if row is None:
        return []
    head = await need_head(tx, command.tenant, row[0])
    settled = []
    for id, body in await tx.all("due_tickets", head.number, tx.now_us, command.limit):
        ticket = rules.expired(rules.read(id, body), tx.now_us)
        await _save(tx, command.tenant, head, ticket)
        batch = wake_up(ticket, ids.derive("wake", "ticket", ticket.id), command.queue)
        await put_batch(tx, command.tenant, head, batch)
        found = await find_ticket(tx, command.tenant, id)
        if found is not None:
            settled.append(found)
    return settled


async def list_tickets(tx: Tx, query: ListTickets) -> Page[Ticket]:
    """One page, oldest first."""
    given, lists, counts = _filter(query.where), "list_tickets", "count_tickets"
    if query.where.session is None:
        given["tenant"] = query.tenant
    else:
        head = await find_head(tx, query.tenant, query.where.session)
        if head is None:
            return Page([], False, None, 0 if query.total else None)
        given["number"] = head.number
        lists, counts = "list_session_tickets", "count_session_tickets"
    total = int((await tx.pick(counts, **given))[0][0]) if query.total else None
    if query.after is not None:
        given |= {"after_us": query.after[0], "after_id": query.after[1]}
    rows = await tx.pick(lists, limit=query.limit + 1, offset=query.offset, **given)
    found = [rules.read(id, body, user) for id, body, user in rows]
    return Page(found[: query.limit], len(found) > query.limit, None, total)


def _filter(where: TicketFilter) -> dict[str, Any]:
    return {
        "status": where.status,
        "user": where.user,
        "run": where.run_id,
        "reason": where.reason,
        "created_before": where.created_before_us,
        "expires_before": where.expires_before_us,
    }


async def check_still_asked(tx: Tx, head: HeadRow, ticket: Ticket) -> None:
    """TicketStale when the message that asked was hidden, or no branch shows it any more."""
    if ticket.node is None:
        return
    row = await tx.one("find_place", head.number, ticket.node)
    if row is None or row[2] is not None:
        raise rules.gone(ticket)
    branches = await tx.all("list_branches", head.number) if head.named else []
    for leaf in (head.leaf, *(leaf for _, leaf in branches)):
        for stretch in await stretches(tx, head, leaf) if leaf >= row[0] else ():
            if stretch.first <= row[0] <= stretch.last:
                return
    raise rules.gone(ticket)
