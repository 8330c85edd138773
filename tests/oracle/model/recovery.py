"""What a dead owner left."""

from __future__ import annotations

from ledgerstone.commands.executions import GetRecovery, ListExecutions, ListLost
from ledgerstone.commands.nodes import ListDrafts
from ledgerstone.commands.runs import GetRun
from ledgerstone.commands.tickets import ListTickets, TicketFilter
from ledgerstone.commands.work import ListWork
from ledgerstone.records.recovery import Recovery
from ledgerstone.records.runs import Run
from ledgerstone.rules.guard import is_live
from tests.oracle.model.executions import list_executions
from tests.oracle.model.notes import list_drafts
from tests.oracle.model.runs import get_run
from tests.oracle.model.standing import Standing, find
from tests.oracle.model.state import Tx
from tests.oracle.model.tickets import list_tickets
from tests.oracle.model.work import list_work

TICKETS_MAX = 10_000
"""More than any session asks at once; a list needs a limit."""


def get_recovery(tx: Tx, query: GetRecovery) -> Recovery | None:
    """Everything that was under way in a session."""
    standing = find(tx, query.tenant, query.session)
    if standing is None:
        return None
    open_run = standing.head.open_run
    run = None if open_run is None else get_run(tx, GetRun(tenant=query.tenant, id=open_run))
    return _recovery(tx, standing, run)


def _recovery(tx: Tx, standing: Standing, run: Run | None) -> Recovery:
    tenant, session, head = standing.tenant, standing.id, standing.head
    queued = list_work(tx, ListWork(tenant=tenant, session=session))
    asked = ListTickets(tenant=tenant, where=TicketFilter(session=session), limit=TICKETS_MAX)
    started = ListExecutions(tenant=tenant, session=session, unresolved=True)
    return Recovery(
        session=session,
        revision=head.revision,
        run=run,
        lease=head.lease(session) if is_live(head, tx.now_us) else None,
        drafts=list_drafts(tx, ListDrafts(tenant=tenant, session=session)),
        executions=list_executions(tx, started),
        claims=[batch for batch in queued if batch.claim is not None],
        tickets=list_tickets(tx, asked).items,
    )


def list_lost(tx: Tx, query: ListLost) -> list[Recovery]:
    """Sessions with a running run that nobody holds, the oldest run first."""
    lost = []
    for (_, id), _ in tx.state.sessions.scan((query.tenant,)):
        standing = find(tx, query.tenant, id)
        if standing is None or standing.head.deleted_us is not None:
            continue
        if not is_live(standing.head, tx.now_us):
            run = _oldest_running(tx, standing)
            if run is not None:
                lost.append((run.created_us, run.id, standing, run))
    lost.sort(key=lambda each: each[:2])
    return [_recovery(tx, standing, run) for _, _, standing, run in lost[: query.limit]]


def _oldest_running(tx: Tx, standing: Standing) -> Run | None:
    found = []
    for (_, id), _ in tx.state.session_runs.scan((standing.number,)):
        run = get_run(tx, GetRun(tenant=standing.tenant, id=id))
        if run is not None and run.status == "running":
            found.append(run)
    return min(found, key=lambda run: (run.created_us, run.id), default=None)
