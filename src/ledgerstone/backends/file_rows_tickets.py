"""Tickets and executions of a line, and the tables that lead to them."""

from __future__ import annotations

from collections.abc import Iterable

from ledgerstone.backends.file_rows import BytesWire
from ledgerstone.model.state import State
from ledgerstone.model.ticket_marks import execution_marks, place_marks, ticket_marks
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import tickets as ticket_rules


def put_tickets(state: State, tenant: str, number: int, rows: Iterable[BytesWire]) -> None:
    """The tickets of a session as they are now."""
    for row in rows:
        data = row.content()
        state.tickets.place((number, row.id), data)
        ticket = ticket_rules.read(row.id, data)
        place_marks(ticket_marks(state, tenant, number, ticket))


def put_executions(state: State, tenant: str, number: int, rows: Iterable[BytesWire]) -> None:
    """The executions of a session as they are now."""
    for row in rows:
        data = row.content()
        state.executions.place((number, row.id), data)
        execution = execution_rules.read(row.id, data)
        place_marks(execution_marks(state, tenant, number, execution))
