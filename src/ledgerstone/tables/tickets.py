"""Tickets, which wait for a decision of a person, and executions of tools."""

from __future__ import annotations

import msgspec

from ledgerstone.tables.table import Table


class TicketRow(msgspec.Struct, frozen=True, gc=False):
    """A tool call that waits, or waited, for a decision; `body` is the whole record."""

    tenant: str
    id: str
    number: int
    run: str | None
    status: str
    reason: str | None
    created_us: int
    expires_us: int | None
    body: bytes


class ExecutionRow(msgspec.Struct, frozen=True, gc=False):
    """A tool call: the intent, later the outcome; `body` is the whole record."""

    tenant: str
    id: str
    number: int
    call: str
    message: str | None
    run: str | None
    ticket: str | None
    status: str
    fence: int | None
    created_us: int
    body: bytes


TICKETS = Table(
    "tickets",
    TicketRow,
    ("tenant", "id"),
    owner="number",
    sealed=("number", "run", "status", "reason", "created_us", "expires_us", "body"),
)
TICKETS_BY_SESSION = TICKETS.index("session", "number", "created_us", "id")
TICKETS_BY_STATUS = TICKETS.index("status", "tenant", "status", "created_us", "id")
TICKETS_BY_EXPIRY = TICKETS.index(
    "expiry",
    "tenant",
    "expires_us",
    "id",
    where="status = 'open' and expires_us is not null",
    holds=lambda row: row.status == "open" and row.expires_us is not None,
)
TICKETS_BY_CREATION = TICKETS.index("created", "tenant", "created_us", "id")

EXECUTIONS = Table(
    "executions",
    ExecutionRow,
    ("tenant", "id"),
    owner="number",
    sealed=("number", "call", "message", "run", "ticket", "status", "fence", "created_us", "body"),
)
EXECUTIONS_BY_SESSION = EXECUTIONS.index("session", "number", "created_us", "id")
EXECUTIONS_BY_CALL = EXECUTIONS.index("call", "number", "call")
EXECUTIONS_BY_MESSAGE = EXECUTIONS.index(
    "message", "message", "created_us", "id", present="message"
)
EXECUTIONS_BY_RUN = EXECUTIONS.index("run", "run", "created_us", "id", present="run")
EXECUTIONS_STARTED = EXECUTIONS.index(
    "started",
    "tenant",
    "created_us",
    "id",
    where="status = 'started'",
    holds=lambda row: row.status == "started",
)
