"""The tables that lead to tickets and executions otherwise than by session; they follow from these.

ticket_ids      tenant, id (the session's number)
open_tickets    tenant, created_us, id (the session's number)
execution_ids   tenant, id (the session's number)
execution_refs  tenant, kind, value, number, id: by call, message, run, and those not finished
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ledgerstone.records.executions import Execution
from ledgerstone.records.tickets import Ticket
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import tickets as ticket_rules
from tests.oracle.model.state import State
from tests.oracle.model.tables import ABSENT, Table

Mark = tuple[Table[Any, Any], tuple[Any, ...], Any]
"""A table, a key and the row that belongs there; ABSENT when there is none."""

STARTED = "started"


def ticket_marks(state: State, tenant: str, number: int, ticket: Ticket) -> Iterator[Mark]:
    """What must stand in the other tables for a ticket as it is now."""
    yield state.ticket_ids, (tenant, ticket.id), number
    is_open = ticket.status == "open"
    yield state.open_tickets, (tenant, ticket.created_us, ticket.id), number if is_open else ABSENT


def execution_marks(state: State, tenant: str, number: int, execution: Execution) -> Iterator[Mark]:
    """The same for an execution."""
    yield state.execution_ids, (tenant, execution.id), number
    for kind, value in (
        ("call", execution.call_id),
        ("message", execution.message_id),
        ("run", execution.run_id),
    ):
        if value is not None:
            yield state.execution_refs, (tenant, kind, value, number, execution.id), None
    is_open = execution.status == STARTED
    key = (tenant, STARTED, "", number, execution.id)
    yield state.execution_refs, key, None if is_open else ABSENT


def put_marks(marks: Iterator[Mark]) -> None:
    """Bring the other tables up to date, inside a transaction."""
    for table, key, row in marks:
        if row is not ABSENT:
            table.put(key, row)
        elif key in table:
            table.delete(key)


def place_marks(marks: Iterator[Mark]) -> None:
    """The same past the undo log, while a store is being read."""
    for table, key, row in marks:
        table.place(key, row)


def forget(state: State, tenant: str, number: int) -> None:
    """Nothing leads to a purged session's tickets and executions any more."""
    for (_, id), data in state.tickets.scan((number,)):
        ticket = ticket_rules.read(id, data)
        put_marks(_gone(ticket_marks(state, tenant, number, ticket)))
    for (_, id), data in state.executions.scan((number,)):
        execution = execution_rules.read(id, data)
        put_marks(_gone(execution_marks(state, tenant, number, execution)))


def drop_executions(state: State, tenant: str, number: int) -> int:
    """Remove the executions of a session and what leads to them; answers how many."""
    rows = list(state.executions.scan((number,)))
    for key, data in rows:
        execution = execution_rules.read(key[1], data)
        put_marks(_gone(execution_marks(state, tenant, number, execution)))
        state.executions.delete(key)
    return len(rows)


def _gone(marks: Iterator[Mark]) -> Iterator[Mark]:
    return ((table, key, ABSENT) for table, key, _ in marks)
