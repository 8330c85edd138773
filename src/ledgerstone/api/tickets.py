"""store.tickets: tool calls that wait for somebody, and what was decided."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET

from ledgerstone import ids
from ledgerstone.api.handle import AsyncResource, Missing
from ledgerstone.commands.tickets import (
    ExpireTickets,
    GetTicket,
    ListTickets,
    ResolveTicket,
    WithdrawTicket,
)
from ledgerstone.intake import checks, cursors
from ledgerstone.intake.checks import LIMIT_DEFAULT, IdRef, SessionRef
from ledgerstone.intake.tickets import decision_of, ticket_filter
from ledgerstone.intake.work import queue_name
from ledgerstone.records.sessions import Page
from ledgerstone.records.tickets import Ticket
from ledgerstone.records.work import QUEUE_DEFAULT

TicketList: TypeAlias = list[Ticket]


class AsyncTickets(AsyncResource):
    """Questions that turns asked with `turn.ask`."""

    async def resolve(
        self,
        id: IdRef,
        decision: str,
        *,
        by: str,
        result: Any = None,
        reason: str | None = None,
        arguments: Any = UNSET,
        decision_id: str | None = None,
        session: SessionRef | None = None,
        wake: bool = True,
        queue: str = QUEUE_DEFAULT,
    ) -> Ticket:
        """Decide: approve or resume, reject or cancel. The same decision again is answered as
        the first time; the run's wake-up is queued with the first, in one transaction.

        `arguments` replaces those that were asked about. Errors: TicketNotFound, TicketClosed
        when it was decided otherwise or its time is over, SessionBindingMismatch when `session`
        is not its session, SessionDeleted.
        """
        ticket = checks.record_id(id, "id")
        made, edited = decision_of(
            ticket,
            decision,
            by=by,
            result=result,
            reason=reason,
            arguments=arguments,
            id=decision_id,
        )
        return await self._write(
            ResolveTicket(
                tenant=self._tenant,
                id=ticket,
                decision=made,
                arguments=edited,
                session=checks.maybe_session(session),
                batch=ids.derive("wake", "ticket", ticket) if checks.flag(wake, "wake") else None,
                queue=queue_name(queue),
            )
        )

    async def cancel(self, id: IdRef) -> bool:
        """Nobody needs to decide any more; False when it was not open. No run is woken."""
        return await self._write(WithdrawTicket(tenant=self._tenant, id=checks.record_id(id, "id")))

    async def expire(self, *, limit: int = 200, queue: str = QUEUE_DEFAULT) -> TicketList:
        """Settle tickets whose time is over, as each of them says, and wake their runs.

        A Worker does this while it is idle.
        """
        left, settled = checks.positive(limit, "limit"), TicketList()
        while left > 0:
            found = await self._write(
                ExpireTickets(tenant=self._tenant, limit=left, queue=queue_name(queue))
            )
            if not found:
                break
            settled += found
            left -= len(found)
        return settled

    async def get(self, id: IdRef) -> Ticket | None:
        """By id, in any session of the tenant; or None."""
        return await self._ask(GetTicket(tenant=self._tenant, id=checks.record_id(id, "id")))

    async def inbox(
        self,
        *,
        user: str | None = None,
        session: SessionRef | None = None,
        reason: str | None = None,
        older_than_s: float | None = None,
        expires_within_s: float | None = None,
        limit: int = LIMIT_DEFAULT,
        offset: int = 0,
        cursor: str | None = None,
        total: bool = False,
    ) -> Page[Ticket]:
        """What waits for a decision, oldest first, as `list`; `user` is the session's."""
        return await self.list(
            user=user,
            session=session,
            reason=reason,
            older_than_s=older_than_s,
            expires_within_s=expires_within_s,
            limit=limit,
            offset=offset,
            cursor=cursor,
            total=total,
        )

    async def list(
        self,
        *,
        status: str | None = "open",
        user: str | None = None,
        session: SessionRef | None = None,
        run_id: IdRef | None = None,
        reason: str | None = None,
        older_than_s: float | None = None,
        expires_within_s: float | None = None,
        limit: int = LIMIT_DEFAULT,
        offset: int = 0,
        cursor: str | None = None,
        total: bool = False,
        missing: Missing = "empty",
    ) -> Page[Ticket]:
        """A page of tickets, oldest first: open, resolved, withdrawn, or any with None.

        Those of a deleted session only when it is named. InvalidValue for a foreign cursor.
        A page has at most 200 items: `Page.limit` is the limit that was applied. The cursor leads
        on to the rest.
        """
        where = ticket_filter(
            self._handle.clock.now_us(),
            status=status,
            session=session,
            user=user,
            run_id=run_id,
            reason=reason,
            older_than_s=older_than_s,
            expires_within_s=expires_within_s,
        )
        fixed = (where.status, where.session, where.user, where.run_id, where.reason)
        # Spans as given, since the time goes on between two pages.
        scope = cursors.scope(self._tenant, "tickets", *fixed, older_than_s, expires_within_s)
        query = ListTickets(
            tenant=self._tenant,
            where=where,
            limit=checks.page_limit(limit),
            offset=checks.whole(offset, "offset"),
            total=checks.flag(total, "total"),
        )
        return await self._page(query, scope, cursor, _place, missing)


def _place(ticket: Ticket) -> tuple[int, str]:
    return ticket.created_us, ticket.id
