"""What a dead owner left."""

from __future__ import annotations

from ledgerstone.commands.executions import GetRecovery, ListExecutions, ListLost
from ledgerstone.commands.nodes import ListDrafts
from ledgerstone.commands.tickets import ListTickets, TicketFilter
from ledgerstone.commands.work import ListWork
from ledgerstone.handlers.executions import list_executions
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.notes import list_drafts
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.runs import find_run, read_run
from ledgerstone.handlers.tickets import list_tickets
from ledgerstone.handlers.work import list_work
from ledgerstone.records.recovery import Recovery
from ledgerstone.records.runs import Run
from ledgerstone.rules.guard import is_live
from ledgerstone.tables.runs import RUNS_OPEN, RunRow
from ledgerstone.tables.sessions import HEADS, SESSIONS, Head
from ledgerstone.tables.table import Key
from ledgerstone.tables.transaction import Tx

TICKETS_MAX = 10_000
"""More than any session asks at once; a list needs a limit."""
_CHUNK_RUNS = 100


@handles(GetRecovery)
async def get_recovery(tx: Tx, query: GetRecovery) -> Recovery | None:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return None
    run = None if head.open_run is None else await find_run(tx, query.tenant, head.open_run)
    return await _recovery(tx, query.tenant, query.session, head, run)


async def _recovery(tx: Tx, tenant: str, session: str, head: Head, run: Run | None) -> Recovery:
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


@handles(ListLost)
async def list_lost(tx: Tx, query: ListLost) -> list[Recovery]:
    """Sessions with a running run that nobody holds, the oldest run first."""
    found: list[Recovery] = []
    seen: set[int] = set()
    after: Key | None = None
    while len(found) < query.limit:
        rows = await tx.scan(RUNS_OPEN, query.tenant, "running", after=after, limit=_CHUNK_RUNS)
        for row in rows:
            if row.number not in seen and len(found) < query.limit:
                seen.add(row.number)  # Its other runs are younger.
                found += await _lost(tx, query.tenant, row)
        if len(rows) < _CHUNK_RUNS:
            break
        after = (rows[-1].created_us, rows[-1].id)
    return found


async def _lost(tx: Tx, tenant: str, row: RunRow) -> list[Recovery]:
    """What is lost with a running run: nothing when somebody holds its session, or it is gone."""
    session = await tx.get(SESSIONS, row.number)
    head = None if session is None else await tx.get(HEADS, row.number)
    if session is None or head is None or head.deleted_us is not None or is_live(head, tx.now_us):
        return []
    return [await _recovery(tx, tenant, session.id, head, read_run(row.id, row.body))]
