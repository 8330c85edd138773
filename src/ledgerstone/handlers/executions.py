"""Executions: the intent before a tool is called, the result after it; what a dead owner left."""

from __future__ import annotations

from copy import copy
from operator import attrgetter

from msgspec.structs import astuple

from ledgerstone.commands import executions as commands
from ledgerstone.commands.executions import GetRecovery, ListExecutions, ListLost
from ledgerstone.commands.nodes import ListDrafts
from ledgerstone.commands.tickets import ListTickets, TicketFilter
from ledgerstone.commands.work import ListWork
from ledgerstone.errors import ExecutionNotFound, SessionBindingMismatch, TicketNotFound
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.heads import find_head, open_session
from ledgerstone.handlers.notes import list_drafts
from ledgerstone.handlers.paging import first_fitting, load_missing
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.runs import find_run, read_run
from ledgerstone.handlers.tickets import check_still_asked, find_ticket, list_tickets
from ledgerstone.handlers.work import list_work, wake
from ledgerstone.records.executions import Execution
from ledgerstone.records.recovery import Recovery
from ledgerstone.records.runs import Run
from ledgerstone.records.tickets import Ticket
from ledgerstone.rules import executions as rules
from ledgerstone.rules import tickets as ticket_rules
from ledgerstone.rules.guard import check_alive, check_guard, is_live
from ledgerstone.rules.usage import NO_CALLS, add_calls, check_calls
from ledgerstone.tables.runs import RUNS_OPEN, RunRow
from ledgerstone.tables.sessions import HEADS, SESSIONS, Head
from ledgerstone.tables.table import Index, Key
from ledgerstone.tables.tickets import (
    EXECUTIONS,
    EXECUTIONS_BY_CALL,
    EXECUTIONS_BY_MESSAGE,
    EXECUTIONS_BY_RUN,
    EXECUTIONS_BY_SESSION,
    EXECUTIONS_STARTED,
    ExecutionRow,
)
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.usage import CALL_SUMS, CallSumsRow

_age = attrgetter("created_us", "id")


TICKETS_MAX = 10_000
"""More than any session asks at once; a list needs a limit."""
_CHUNK_RUNS = 100


@handles(commands.StartExecution)
async def start_execution(tx: Tx, command: commands.StartExecution) -> Execution:
    tenant, fence = command.tenant, command.guard.fence
    head = await open_session(tx, tenant, command.session)
    check_guard(command.session, head, command.guard, tx.now_us)
    found = await _find(tx, tenant, command.id, head)
    if found is not None:
        old, _ = found
        rules.check_repeat(command, old)
        if command.pending:
            return old
        if old.status == "pending":
            return await _begin_again(tx, tenant, head, old, fence)
        # Whoever lost the answer still holds the lease; anybody else would call the tool twice.
        repeats = old.status != "unknown" and not command.once
        return old if repeats else rules.check_known(old)
    ticket, arguments = None, command.arguments
    if command.ticket is not None:
        ticket = await _approved(tx, tenant, command.session, command.ticket)
        arguments = ticket_rules.check_same_call(
            ticket, command.call_id, command.tool, command.arguments
        )
        await check_still_asked(tx, head, ticket)
    made = rules.begun(command, ticket, arguments, tx.now_us)
    rows = await tx.scan(EXECUTIONS_BY_CALL, head.number, made.call_id)
    if rows:
        twin = _read(tx, min(rows, key=_age), head)
        rules.check_twin(command, twin)
        if command.pending:
            return twin
        if twin.status == "pending":
            return await _begin_again(tx, tenant, head, twin, fence)
        return rules.check_known(twin)
    # It took no time yet, so the sums cannot overflow.
    tx.add(CALL_SUMS, CallSumsRow(head.number, *rules.counts(made)))
    return _save(tx, tenant, head, made)


async def _begin_again(
    tx: Tx,
    tenant: str,
    head: Head,
    execution: Execution,
    fence: int | None,
    *,
    later: bool = False,
) -> Execution:
    again = rules.retried(execution, fence, tx.now_us, later=later)
    if execution.ticket is not None:
        ticket = await _approved(tx, tenant, execution.session, execution.ticket)
        await check_still_asked(tx, head, ticket)
    await _count_change(tx, head.number, execution, again)
    return _save(tx, tenant, head, again)


async def _approved(tx: Tx, tenant: str, session: str, id: str) -> Ticket:
    ticket = await find_ticket(tx, tenant, id)
    if ticket is None:
        raise TicketNotFound(id)
    if ticket.session != session:
        raise SessionBindingMismatch(ticket.session, session)
    ticket_rules.check_approved(ticket)
    return ticket


async def _count_change(tx: Tx, number: int, before: Execution, after: Execution) -> None:
    """Bring the sums of a session up to date; InvalidValue when its time would overflow."""
    change = add_calls(rules.counts(after), rules.counts(before), -1)
    if change == NO_CALLS:
        return
    check_calls(change)
    old = await tx.get(CALL_SUMS, number) or CallSumsRow(number, *NO_CALLS)
    _, *sums = astuple(old)
    tx.put(CALL_SUMS, CallSumsRow(number, *check_calls(add_calls((*sums,), change))))


def _save(tx: Tx, tenant: str, head: Head, execution: Execution) -> Execution:
    """Write an execution; answers it as it will be read."""
    row = ExecutionRow(
        tenant=tenant,
        id=execution.id,
        number=head.number,
        body=rules.encode(execution),
        **rules.columns(execution),
    )
    tx.put(EXECUTIONS, row)
    return _read(tx, row, head)


def _read(tx: Tx, row: ExecutionRow, head: Head) -> Execution:
    """An execution as it looks to who knows the head of its session."""
    return rules.seen(rules.read(row.id, row.body), rules.live_fence(head, tx.now_us))


async def _find(
    tx: Tx, tenant: str, id: str, known: Head | None = None
) -> tuple[Execution, Head] | None:
    """An execution of a session that was not purged, and the head: the known one, or a copy."""
    row = await tx.get(EXECUTIONS, tenant, id)
    if row is None:
        return None
    if known is not None and known.number == row.number:
        return _read(tx, row, known), known
    head = await tx.get(HEADS, row.number)
    return None if head is None else (_read(tx, row, head), copy(head))


async def _need(tx: Tx, tenant: str, id: str, known: Head | None = None) -> tuple[Execution, Head]:
    found = await _find(tx, tenant, id, known)
    if found is None:
        raise ExecutionNotFound(id)
    return found


async def need_execution(tx: Tx, tenant: str, id: str) -> Execution:
    """The execution, or ExecutionNotFound."""
    return (await _need(tx, tenant, id))[0]


@handles(commands.FinishExecution)
async def finish_execution(tx: Tx, command: commands.FinishExecution) -> Execution:
    execution, head = await _need(tx, command.tenant, command.finish.id)
    check_alive(execution.session, head)
    if command.guard.fence is not None:
        check_guard(execution.session, head, command.guard, tx.now_us)
    settled = rules.finished(execution, command.finish, tx.now_us)
    if settled is None:
        return execution
    await wake(tx, head, execution.id)
    await _count_change(tx, head.number, execution, settled)
    return _save(tx, command.tenant, head, settled)


async def finish_in_commit(tx: Tx, commit: Commit) -> None:
    """The outcomes that a commit brings."""
    command, effects = commit.command, []
    for finish in command.executions:
        execution, head = await _need(tx, command.tenant, finish.id, commit.head)
        if head is not commit.head:
            raise ExecutionNotFound(finish.id)
        settled = rules.finished(execution, finish, commit.moment_us)
        if settled is not None:
            await _count_change(tx, head.number, execution, settled)
            execution = _save(tx, command.tenant, head, settled)
            await wake(tx, head, execution.id)
        effects.append([execution.id, execution.status])
    commit.effects["executions"] = effects


@handles(commands.RetryExecution)
async def retry_execution(tx: Tx, command: commands.RetryExecution) -> Execution:
    execution, head = await _need(tx, command.tenant, command.id)
    check_alive(execution.session, head)
    fence, later = command.guard.fence, command.later
    if fence is not None or not later:
        check_guard(execution.session, head, command.guard, tx.now_us)
    await wake(tx, head, execution.id)
    return await _begin_again(tx, command.tenant, head, execution, fence, later=later)


@handles(commands.GetExecution)
async def get_execution(tx: Tx, query: commands.GetExecution) -> Execution | None:
    found = await _find(tx, query.tenant, query.id)
    return None if found is None else found[0]


@handles(commands.ListExecutions)
async def list_executions(tx: Tx, query: commands.ListExecutions) -> list[Execution]:
    heads: dict[int, Head | None] = {}
    if query.session is not None:
        head = await find_head(tx, query.tenant, query.session)
        if head is None:
            return []
        heads[head.number] = head
    number = next(iter(heads), None)

    async def fitting(rows: list[ExecutionRow]) -> list[ExecutionRow]:
        rows = [row for row in rows if _fits(row, query, number)]
        await load_missing(tx, HEADS, heads, (row.number for row in rows))
        return [row for row in rows if heads[row.number] is not None]

    index, prefix, limit = _index_for(query, number)
    if index is EXECUTIONS_BY_SESSION and query.unresolved:
        # Few have no outcome: they are chosen without the bodies of the rest.
        places = await tx.scan_columns(EXECUTIONS_BY_SESSION, ("id", "status"), *prefix)
        keys = [(query.tenant, id) for id, status in places if status == "started"]
        stored = await tx.get_many(EXECUTIONS, keys)
        rows = await fitting([row for row in stored if row is not None])
    else:
        rows = await first_fitting(tx, index, prefix, fitting, limit)
    rows.sort(key=_age)
    return [
        _read(tx, row, head)
        for row in rows[: query.limit]
        if (head := heads[row.number]) is not None
    ]


def _index_for(
    query: commands.ListExecutions, number: int | None
) -> tuple[Index[ExecutionRow], Key, int | None]:
    """Where to look for the fewest rows, and for how many when they are in the order of age.

    Messages and runs of other tenants may have the same id, so theirs are not read in pages.
    """
    if query.message is not None:
        return EXECUTIONS_BY_MESSAGE, (query.message,), None
    if query.run_id is not None:
        return EXECUTIONS_BY_RUN, (query.run_id,), None
    if number is not None:
        return EXECUTIONS_BY_SESSION, (number,), query.limit
    if query.unresolved:
        return EXECUTIONS_STARTED, (query.tenant,), query.limit
    return EXECUTIONS.primary, (query.tenant,), None


def _fits(row: ExecutionRow, query: commands.ListExecutions, number: int | None) -> bool:
    if row.tenant != query.tenant or (query.unresolved and row.status != "started"):
        return False
    return all(
        wanted in (None, actual)
        for wanted, actual in (
            (number, row.number),
            (query.message, row.message),
            (query.run_id, row.run),
        )
    )


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
