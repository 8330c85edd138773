"""What callers say about tool calls that are made, checked and encoded once."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ledgerstone import ids
from ledgerstone.codec import encode_json
from ledgerstone.commands import Guard
from ledgerstone.commands.executions import Finish, StartExecution
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks

ERROR_CHARS_MAX = 4096


def start_of(
    tenant: str,
    session: str,
    guard: Guard,
    *,
    call_id: str | None,
    tool: str | None,
    arguments: Any,
    run_id: Any,
    message: Any,
    key: str | None,
    ticket: Any,
    id: str | None,
) -> StartExecution:
    """The intent; without a ticket, call and tool must be named."""
    for name, value in (("call_id", call_id), ("tool", tool)):
        if value is None and ticket is None:
            raise InvalidValue(name, "needed, unless a ticket is given")
    return StartExecution(
        tenant=tenant,
        session=session,
        id=ids.new_id() if id is None else ids.check_id(id, "id"),
        call_id=None if call_id is None else ids.check_id(call_id, "call_id"),
        tool=None if tool is None else ids.check_name(tool, "tool"),
        arguments=None if arguments is UNSET else encode_json(arguments, "arguments"),
        key="" if key is None else ids.check_name(key, "key"),
        message_id=checks.maybe_id(message, "message"),
        run_id=checks.maybe_id(run_id, "run_id"),
        ticket=checks.maybe_id(ticket, "ticket"),
        guard=guard,
    )


def finish_of(id: Any, result: Any, error: Any, duration_ms: int | None) -> Finish:
    """The outcome: a result, which may be None, or an error, which may not."""
    if (result is UNSET) == (error is UNSET):
        raise InvalidValue("result", "give either a result or an error")
    if error is not UNSET and not isinstance(error, str | dict):
        raise InvalidValue("error", f"text or an object expected, got {type(error).__name__}")
    return Finish(
        id=checks.record_id(id, "id"),
        result=None if result is UNSET else encode_json(result, "result"),
        error=None if error is UNSET else encode_json(error, "error"),
        duration_ms=None if duration_ms is None else checks.whole(duration_ms, "duration_ms"),
    )


def error_text(error: BaseException) -> str:
    """Type and message, bounded."""
    return f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
