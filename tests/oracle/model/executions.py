"""Executions: the intent before a tool is called, the result after it."""

from __future__ import annotations

from collections.abc import Iterator

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
from ledgerstone.rules.guard import check_guard
from tests.oracle.model.commits import Commit
from tests.oracle.model.parking import wake
from tests.oracle.model.standing import Standing, find, require_alive
from tests.oracle.model.state import Tx
from tests.oracle.model.ticket_marks import STARTED, execution_marks, put_marks
from tests.oracle.model.tickets import check_still_asked, find_ticket
from tests.oracle.model.usage import count_call


def start_execution(tx: Tx, command: StartExecution) -> Execution:
    """The durable intent, or the outcome that the same call had before."""
    standing = require_alive(tx, command.tenant, command.session)
    check_guard(command.session, standing.head, command.guard, tx.now_us)
    old = _find(tx, command.tenant, command.id)
    if old is not None:
        rules.check_repeat(command, old)
        if old.status == "pending":
            return _begin_again(tx, standing, old, command.guard.fence)
        # Whoever lost the answer still holds the lease; anybody else would call the tool twice.
        repeats = old.status != "unknown" and not command.once
        return old if repeats else rules.check_known(old)
    ticket, arguments = None, command.arguments
    if command.ticket is not None:
        ticket = _approved(tx, command.tenant, command.session, command.ticket)
        arguments = ticket_rules.check_same_call(
            ticket, command.call_id, command.tool, command.arguments
        )
        check_still_asked(tx, standing, ticket)
    made = rules.begun(command, ticket, arguments, tx.now_us)
    prefix = (command.tenant, "call", made.call_id, standing.number)
    twins = [_read(tx, key[3], key[4]) for key, _ in tx.state.execution_refs.scan(prefix)]
    if twins:
        twin = min(twins, key=_place)
        rules.check_twin(command, twin)
        if twin.status == "pending":
            return _begin_again(tx, standing, twin, command.guard.fence)
        return rules.check_known(twin)
    return _save(tx, standing, made, None)


def _begin_again(
    tx: Tx, standing: Standing, execution: Execution, fence: int | None, *, later: bool = False
) -> Execution:
    again = rules.retried(execution, fence, tx.now_us, later=later)
    if execution.ticket is not None:
        ticket = _approved(tx, standing.tenant, execution.session, execution.ticket)
        check_still_asked(tx, standing, ticket)
    return _save(tx, standing, again, execution)


def _approved(tx: Tx, tenant: str, session: str, id: str) -> Ticket:
    ticket = find_ticket(tx, tenant, id)
    if ticket is None:
        raise TicketNotFound(id)
    if ticket.session != session:
        raise SessionBindingMismatch(ticket.session, session)
    ticket_rules.check_approved(ticket)
    return ticket


def _save(tx: Tx, standing: Standing, execution: Execution, before: Execution | None) -> Execution:
    """Write an execution and count it; answers it as it will be read."""
    count_call(tx, standing.number, execution, before)
    tx.state.executions.put((standing.number, execution.id), rules.encode(execution))
    put_marks(execution_marks(tx.state, standing.tenant, standing.number, execution))
    return _read(tx, standing.number, execution.id)


def _read(tx: Tx, number: int, id: str) -> Execution:
    live = rules.live_fence(tx.state.heads[(number,)], tx.now_us)
    return rules.seen(rules.read(id, tx.state.executions[(number, id)]), live)


def _place(execution: Execution) -> tuple[int, str]:
    return (execution.created_us, execution.id)


def _find(tx: Tx, tenant: str, id: str) -> Execution | None:
    number = tx.state.execution_ids.get((tenant, id))
    return None if number is None else _read(tx, number, id)


def need_execution(tx: Tx, tenant: str, id: str) -> Execution:
    found = _find(tx, tenant, id)
    if found is None:
        raise ExecutionNotFound(id)
    return found


def finish_execution(tx: Tx, command: FinishExecution) -> Execution:
    """The outcome, once."""
    execution = need_execution(tx, command.tenant, command.finish.id)
    standing = require_alive(tx, command.tenant, execution.session)
    if command.guard.fence is not None:
        check_guard(execution.session, standing.head, command.guard, tx.now_us)
    settled = rules.finished(execution, command.finish, tx.now_us)
    if settled is None:
        return execution
    wake(tx, standing, execution.id)
    return _save(tx, standing, settled, execution)


def finish_in_commit(commit: Commit) -> None:
    """The outcomes that a commit brings."""
    command, effects = commit.command, []
    for finish in command.executions:
        execution = need_execution(commit.tx, command.tenant, finish.id)
        if execution.session != command.session:
            raise ExecutionNotFound(finish.id)
        settled = rules.finished(execution, finish, commit.moment_us)
        if settled is not None:
            execution = _save(commit.tx, commit.standing, settled, execution)
            wake(commit.tx, commit.standing, execution.id)
        effects.append([execution.id, execution.status])
    commit.effects["executions"] = effects


def retry_execution(tx: Tx, command: RetryExecution) -> Execution:
    """Begin it once more, because somebody decided so."""
    execution = need_execution(tx, command.tenant, command.id)
    standing = require_alive(tx, command.tenant, execution.session)
    if command.guard.fence is not None or not command.later:
        check_guard(execution.session, standing.head, command.guard, tx.now_us)
    wake(tx, standing, execution.id)
    return _begin_again(tx, standing, execution, command.guard.fence, later=command.later)


def get_execution(tx: Tx, query: GetExecution) -> Execution | None:
    """By id."""
    return _find(tx, query.tenant, query.id)


def list_executions(tx: Tx, query: ListExecutions) -> list[Execution]:
    """In the order they were made."""
    found = [one for one in _candidates(tx, query) if _fits(one, query)]
    found.sort(key=_place)
    return found if query.limit is None else found[: query.limit]


def _candidates(tx: Tx, query: ListExecutions) -> Iterator[Execution]:
    """The fewest that are known to hold all that fit."""
    refs = tx.state.execution_refs
    if query.session is not None:
        standing = find(tx, query.tenant, query.session)
        if standing is not None:
            for key, _ in tx.state.executions.scan((standing.number,)):
                yield _read(tx, *key)
        return
    prefix: tuple[str, ...] = (query.tenant, "call")
    if query.message is not None:
        prefix = (query.tenant, "message", query.message)
    elif query.run_id is not None:
        prefix = (query.tenant, "run", query.run_id)
    elif query.unresolved:
        prefix = (query.tenant, STARTED)
    for (_, _, _, number, id), _ in refs.scan(prefix):
        yield _read(tx, number, id)


def _fits(execution: Execution, query: ListExecutions) -> bool:
    if query.unresolved and rules.is_decided(execution):
        return False
    return query.message in (None, execution.message_id) and query.run_id in (
        None,
        execution.run_id,
    )
