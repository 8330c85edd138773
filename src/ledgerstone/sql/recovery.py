"""What a dead owner left."""

from __future__ import annotations

from ledgerstone.commands.executions import GetRecovery, ListExecutions, ListLost
from ledgerstone.commands.nodes import ListDrafts
from ledgerstone.commands.tickets import ListTickets, TicketFilter
from ledgerstone.commands.work import ListWork
from ledgerstone.records.recovery import Recovery
from ledgerstone.records.runs import Run
from ledgerstone.rules.guard import is_live
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.executions import list_executions
from ledgerstone.sql.heads import find_head, need_head
from ledgerstone.sql.notes import list_drafts
from ledgerstone.sql.run_rows import find_run
from ledgerstone.sql.tickets import list_tickets
from ledgerstone.sql.tx import Tx
from ledgerstone.sql.work import list_work

TICKETS_MAX = 10_000
"""More than any session asks at once; a list needs a limit."""


async def get_recovery(tx: Tx, query: GetRecovery) -> Recovery | None:
    """Everything that was under way in a session."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return None
    run = None if head.open_run is None else await find_run(tx, query.tenant, head.open_run)
    return await _recovery(tx, query.tenant, query.session, head, run)


async def _recovery(tx: Tx, tenant: str, session: str, head: HeadRow, run: Run | None) -> Recovery:
    queued = await list_work(tx, ListWork(tenant=tenant, session=session))
    asked = ListTickets(tenant=tenant, where=TicketFilter(session=session), limit=TICKETS_MAX)
    started = ListExecutions(tenant=tenant, session=session, unresolved=True)
    return Recovery(
        session=session,
        revision=head.revision,
        run=run,
        lease=head.lease(session) if is_live(head, tx.now_us) else None,
        drafts=await list_drafts(tx, ListDrafts(tenant=tenant, session=session)),
        executions=await list_executions(tx, started),
        claims=[batch for batch in queued if batch.claim is not None],
        tickets=(await list_tickets(tx, asked)).items,
    )


async def list_lost(tx: Tx, query: ListLost) -> list[Recovery]:
    """Sessions with a running run that nobody holds, the oldest run first."""
    found = []
    for session, run in await tx.all("lost_runs", query.tenant, tx.now_us, query.limit):
        head = await need_head(tx, query.tenant, session)
        record = await find_run(tx, query.tenant, run)
        found.append(await _recovery(tx, query.tenant, session, head, record))
    return found
