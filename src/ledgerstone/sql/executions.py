"""Executions: the intent before a tool is called, the result after it."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.executions import (
    FinishExecution,
    GetExecution,
    ListExecutions,
    RetryExecution,
    StartExecution,
)
from ledgerstone.errors import ExecutionNotFound, SessionBindingMismatch, TicketNotFound
from ledgerstone.records.executions import Execution
from ledgerstone.records.tickets import Ticket
from ledgerstone.rules import executions as rules
from ledgerstone.rules import tickets as ticket_rules
from ledgerstone.rules.guard import check_alive, check_guard
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.usage import NO_CALLS, add_calls, check_calls, too_long
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.heads import find_head, need_head
from ledgerstone.sql.parking import wake
from ledgerstone.sql.tickets import check_still_asked, find_ticket
from ledgerstone.sql.tx import Tx


async def start_execution(tx: Tx, command: StartExecution) -> Execution:
    """The durable intent, or the outcome that the same call had before."""
    head = await need_head(tx, command.tenant, command.session)
    check_alive(command.session, head)
    check_guard(command.session, head, command.guard, tx.now_us)
    old = await _find(tx, command.tenant, command.id)
    if old is not None:
        rules.check_repeat(command, old)
        if old.status == "pending":
            return await _begin_again(tx, command.tenant, head, old, command.guard.fence)
        # Whoever lost the answer still holds the lease; anybody else would call the tool twice.
        repeats = old.status != "unknown" and not command.once
        return old if repeats else rules.check_known(old)
    ticket, arguments = None, command.arguments
    if command.ticket is not None:
        ticket = await _approved(tx, command.tenant, command.session, command.ticket)
        arguments = ticket_rules.check_same_call(
            ticket, command.call_id, command.tool, command.arguments
        )
        await check_still_asked(tx, head, ticket)
    made = rules.begun(command, ticket, arguments, tx.now_us)
    row = await tx.one("execution_of_call", head.number, made.call_id)
    if row is not None:
        twin = rules.seen(rules.read(*row), rules.live_fence(head, tx.now_us))
        rules.check_twin(command, twin)
        if twin.status == "pending":
            return await _begin_again(tx, command.tenant, head, twin, command.guard.fence)
        return rules.check_known(twin)
    return await _save(tx, command.tenant, head, made, None)


async def _begin_again(
    tx: Tx,
    tenant: str,
    head: HeadRow,
    execution: Execution,
    fence: int | None,
    *,
    later: bool = False,
) -> Execution:
    again = rules.retried(execution, fence, tx.now_us, later=later)
    if execution.ticket is not None:
        ticket = await _approved(tx, tenant, execution.session, execution.ticket)
        await check_still_asked(tx, head, ticket)
    return await _save(tx, tenant, head, again, execution)


async def _approved(tx: Tx, tenant: str, session: str, id: str) -> Ticket:
    ticket = await find_ticket(tx, tenant, id)
    if ticket is None:
        raise TicketNotFound(id)
    if ticket.session != session:
        raise SessionBindingMismatch(ticket.session, session)
    ticket_rules.check_approved(ticket)
    return ticket


async def _save(
    tx: Tx, tenant: str, head: HeadRow, execution: Execution, before: Execution | None
) -> Execution:
    """Write an execution and count it; answers it as it will be read."""
    body = rules.encode(execution)
    added = add_calls(rules.counts(execution), rules.counts(before), -1)
    if added != NO_CALLS and not await tx.run("add_call_sums", head.number, *check_calls(added)):
        raise too_long()
    await tx.run(
        "put_execution",
        tenant,
        execution.id,
        head.number,
        execution.call_id,
        execution.message_id,
        execution.run_id,
        execution.ticket,
        execution.status,
        execution.fence,
        execution.created_us,
        body,
    )
    return rules.seen(rules.read(execution.id, body), rules.live_fence(head, tx.now_us))


async def _find(tx: Tx, tenant: str, id: str) -> Execution | None:
    row = await tx.one("find_execution", tenant, id, tx.now_us)
    return None if row is None else rules.seen(rules.read(id, row[0]), row[2])


async def need_execution(tx: Tx, tenant: str, id: str) -> Execution:
    found = await _find(tx, tenant, id)
    if found is None:
        raise ExecutionNotFound(id)
    return found


async def finish_execution(tx: Tx, command: FinishExecution) -> Execution:
    """The outcome, once."""
    execution = await need_execution(tx, command.tenant, command.finish.id)
    head = await need_head(tx, command.tenant, execution.session)
    check_alive(execution.session, head)
    if command.guard.fence is not None:
        check_guard(execution.session, head, command.guard, tx.now_us)
    settled = rules.finished(execution, command.finish, tx.now_us)
    if settled is None:
        return execution
    await wake(tx, head, execution.id)
    return await _save(tx, command.tenant, head, settled, execution)


async def finish_in_commit(tx: Tx, commit: Commit) -> None:
    """The outcomes that a commit brings."""
    command, effects = commit.command, []
    for finish in command.executions:
        execution = await need_execution(tx, command.tenant, finish.id)
        if execution.session != command.session:
            raise ExecutionNotFound(finish.id)
        settled = rules.finished(execution, finish, commit.moment_us)
        if settled is not None:
            execution = await _save(tx, command.tenant, commit.head, settled, execution)
            await wake(tx, commit.head, execution.id)
        effects.append([execution.id, execution.status])
    commit.effects["executions"] = effects


async def retry_execution(tx: Tx, command: RetryExecution) -> Execution:
    """Begin it once more, because somebody decided so."""
    execution = await need_execution(tx, command.tenant, command.id)
    head = await need_head(tx, command.tenant, execution.session)
    check_alive(execution.session, head)
    if command.guard.fence is not None or not command.later:
        check_guard(execution.session, head, command.guard, tx.now_us)
    await wake(tx, head, execution.id)
    fence, later = command.guard.fence, command.later
    return await _begin_again(tx, command.tenant, head, execution, fence, later=later)


async def get_execution(tx: Tx, query: GetExecution) -> Execution | None:
    """By id."""
    return await _find(tx, query.tenant, query.id)


async def list_executions(tx: Tx, query: ListExecutions) -> list[Execution]:
    """In the order they were made."""
    given: dict[str, Any] = {"tenant": query.tenant}
    statement = "list_executions"
    if query.session is not None:
        head = await find_head(tx, query.tenant, query.session)
        if head is None:
            return []
        given = {"number": head.number, "message": query.message, "run": query.run_id}
        statement = "list_session_executions"
    elif query.message is not None:
        given |= {"message": query.message, "run": query.run_id}
        statement = "list_message_executions"
    elif query.run_id is not None:
        given["run"] = query.run_id
        statement = "list_run_executions"
    given["unresolved"] = True if query.unresolved else None
    rows = await tx.pick(statement, now=tx.now_us, limit=query.limit, **given)
    return [rules.seen(rules.read(id, body), live) for id, body, live in rows]
