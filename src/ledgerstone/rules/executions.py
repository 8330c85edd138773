"""From the intent to the outcome of a tool call."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.codec import decode_json, encode_json, encode_struct
from ledgerstone.commands.executions import Finish, StartExecution
from ledgerstone.errors import (
    AlreadyExists,
    ExecutionResolved,
    ExecutionUnresolved,
    InvalidValue,
)
from ledgerstone.records.executions import Execution
from ledgerstone.records.tickets import Ticket
from ledgerstone.rules.bodies import read_struct
from ledgerstone.rules.guard import is_live
from ledgerstone.rules.rows import HeadRow

_NULL = b"null"
_decoder = msgspec.json.Decoder(Execution)


def encode(execution: Execution) -> bytes:
    """The execution as it is stored."""
    return encode_struct(execution, "execution")


def columns(execution: Execution) -> dict[str, Any]:
    """What its row says beside the body, so that it is found by it."""
    return {
        "call": execution.call_id,
        "message": execution.message_id,
        "run": execution.run_id,
        "ticket": execution.ticket,
        "status": execution.status,
        "fence": execution.fence,
        "created_us": execution.created_us,
    }


def read(id: str, data: bytes) -> Execution:
    """A stored execution; Corrupt when it does not decode."""
    return read_struct(_decoder, data, "executions", id)


def live_fence(head: HeadRow, now_us: int) -> int | None:
    """The fence that somebody holds the session under now."""
    return head.fence if is_live(head, now_us) else None


def seen(execution: Execution, live: int | None) -> Execution:
    """As a reader sees it: nobody is left to finish what began under a lease that is gone."""
    if execution.status != "started" or execution.fence in (None, live):
        return execution
    return replace(execution, status="unknown")


def begun(
    command: StartExecution, ticket: Ticket | None, arguments: bytes | None, now_us: int
) -> Execution:
    """The intent; what the ticket decided goes with it, and may be the result already."""
    call_id, tool = command.call_id, command.tool
    if ticket is not None:
        call_id, tool = ticket.call_id, ticket.tool
    if call_id is None or tool is None:
        raise InvalidValue("call_id" if call_id is None else "tool", "needed without a ticket")
    made = Execution(
        id=command.id,
        session=command.session,
        call_id=call_id,
        tool=tool,
        arguments=decode_json(arguments or _NULL),
        key=command.key or ids.derive("execution", command.session, call_id),
        message_id=command.message_id,
        run_id=command.run_id,
        ticket=command.ticket,
        fence=command.guard.fence,
        created_us=now_us,
        started_us=now_us,
    )
    if command.pending:
        made = replace(made, status="pending", attempts=0, fence=None, started_us=0)
    if ticket is None or ticket.decision is None:
        return made
    made = replace(
        made,
        mode=ticket.mode,
        decision=ticket.decision,
        message_id=command.message_id or ticket.node,
        run_id=command.run_id or ticket.run_id,
    )
    if ticket.mode != "use_decision_as_tool_result":
        return made
    return replace(made, status="succeeded", result=ticket.decision.result, finished_us=now_us)


def check_repeat(command: StartExecution, old: Execution) -> None:
    """AlreadyExists unless the stored one is what the command would have made."""
    told = [(command.session, old.session), (command.ticket, old.ticket)]
    for given, stored in (
        (command.key or None, old.key),
        (command.call_id, old.call_id),
        (command.tool, old.tool),
        (command.message_id, old.message_id),
        (command.run_id, old.run_id),
    ):
        if given is not None:
            told.append((given, stored))
    if any(given != stored for given, stored in told) or not _same_arguments(command, old):
        raise AlreadyExists(command.id)


def check_twin(command: StartExecution, old: Execution) -> None:
    """AlreadyExists when a call id was used again for another call: its result is no answer."""
    if command.ticket is not None or old.ticket is not None:
        return  # The ticket says what it is; arguments may have been edited.
    if command.tool != old.tool or not _same_arguments(command, old):
        raise AlreadyExists(old.id)


def _same_arguments(command: StartExecution, old: Execution) -> bool:
    return command.arguments in (None, encode_json(old.arguments, "arguments"))


def is_decided(execution: Execution) -> bool:
    """Whether nobody has to say any more what becomes of it."""
    return execution.resolved or execution.status == "pending"


def check_known(execution: Execution) -> Execution:
    """The execution with its outcome; ExecutionUnresolved when nobody knows it."""
    if not execution.resolved:
        raise ExecutionUnresolved(execution.id, execution.call_id)
    return execution


def finished(execution: Execution, finish: Finish, now_us: int) -> Execution | None:
    """The execution with its outcome; None when it has this very outcome already."""
    failed = finish.error is not None
    data = (finish.error if failed else finish.result) or _NULL
    status = "failed" if failed else "succeeded"
    if execution.resolved:
        old = execution.error if execution.status == "failed" else execution.result
        if execution.status == status and encode_json(old, "result") == data:
            return None
        raise ExecutionResolved(execution.id, execution.status)
    duration_ms = finish.duration_ms
    if duration_ms is None:
        began_us = execution.started_us or now_us
        duration_ms = max(now_us - began_us, 0) // 1000
    outcome = decode_json(data)
    return replace(
        execution,
        status="failed" if failed else "succeeded",
        result=None if failed else outcome,
        error=outcome if failed else None,
        duration_ms=duration_ms,
        finished_us=now_us,
    )


def retried(
    execution: Execution, fence: int | None, now_us: int, *, later: bool = False
) -> Execution:
    """Begun once more, by whom decided so; `execution` as a reader sees it. `later`: it waits."""
    if execution.status == "succeeded":
        raise ExecutionResolved(execution.id, execution.status)
    if execution.status == "started" and execution.fence is not None:
        raise ExecutionUnresolved(execution.id, execution.call_id)
    if later:
        return replace(
            execution, status="pending", finished_us=None, duration_ms=0, result=None, error=None
        )
    return replace(
        execution,
        status="started",
        attempts=execution.attempts + 1,
        started_us=now_us,
        finished_us=None,
        duration_ms=0,
        fence=fence,
        result=None,
        error=None,
    )


def counts(execution: Execution | None) -> tuple[int, int, int, int]:
    """What an execution adds to the calls, successes, failures and milliseconds of its session."""
    if execution is None:
        return (0, 0, 0, 0)
    succeeded, failed = execution.status == "succeeded", execution.status == "failed"
    duration_ms = execution.duration_ms if succeeded or failed else 0
    return (1, int(succeeded), int(failed), duration_ms)


def flaw(execution: Execution, told: str | None) -> str | None:
    """What is wrong with a stored execution, given the outcome that a turn told; None if nothing.

    A failed one may have been tried again since, a success is final.
    """
    if told == "succeeded" and execution.status != told:
        return f"{execution.status}, its turn says {told}"
    return None
