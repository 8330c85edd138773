"""Executions: the intent before a tool is called, the result after it."""

from __future__ import annotations

import msgspec

from ledgerstone.commands import FREE, Command, Guard, Query, SessionCommand, SessionQuery
from ledgerstone.records.executions import Execution
from ledgerstone.records.recovery import Recovery


class StartExecution(SessionCommand[Execution], frozen=True, kw_only=True):
    """The durable intent. The same id and content again: the first answer, while its lease lives.

    Another execution of the same call (or the same ticket) that is resolved is answered instead;
    one that is not is ExecutionUnresolved: it is never silently run again. AlreadyExists when the
    call id was used for another tool or other arguments. `key` empty: derived from the call.
    With a ticket: TicketClosed unless it was approved, TicketStale when tool or arguments are not
    those that were approved, or the message that asked is no longer part of the conversation.
    `tool` None, `arguments` None: as the ticket says.
    `once`: the same id again is no repeat, so that of two that start it only one is told to.
    `pending`: it is only recorded, and the next start of the call begins it; a call that is known
    is answered as it stands.
    """

    id: str
    call_id: str | None
    tool: str | None
    arguments: bytes | None
    key: str
    message_id: str | None = None
    run_id: str | None = None
    ticket: str | None = None
    guard: Guard = FREE
    once: bool = False
    pending: bool = False


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """How an execution ended: canonical JSON of its result or of its error, never both."""

    id: str
    result: bytes | None = None
    error: bytes | None = None
    duration_ms: int | None = None


class FinishExecution(Command[Execution], frozen=True, kw_only=True):
    """The same outcome again is the first answer, another one ExecutionResolved.

    ExecutionNotFound. `guard`: Fenced or LeaseExpired when it is given and stale.
    """

    finish: Finish
    guard: Guard = FREE


class RetryExecution(Command[Execution], frozen=True, kw_only=True):
    """The caller decided to run it once more: same id and key, one attempt more.

    ExecutionNotFound, ExecutionResolved when it succeeded, ExecutionUnresolved while another
    owner may still be at it. `later`: it is only decided; the next StartExecution of the call
    begins it.
    """

    id: str
    guard: Guard = FREE
    later: bool = False


class GetExecution(Query[Execution | None], frozen=True, kw_only=True):
    """By id, anywhere in the tenant."""

    id: str


class ListExecutions(Query[list[Execution]], frozen=True, kw_only=True):
    """By session, message or run, in the order they were made; `unresolved`: only those."""

    session: str | None = None
    message: str | None = None
    run_id: str | None = None
    unresolved: bool = False
    limit: int | None = None


class GetRecovery(SessionQuery[Recovery | None], frozen=True, kw_only=True):
    """What was under way in a session; None when there is no such session."""


class ListLost(Query[list[Recovery]], frozen=True, kw_only=True):
    """Sessions with a run that is running while nobody holds the session, oldest first."""

    limit: int
