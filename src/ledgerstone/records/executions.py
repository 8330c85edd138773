"""An execution: one tool call, written down before it is made."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ledgerstone.records.decisions import Decision, ResumeMode

ExecutionStatus = Literal["started", "succeeded", "failed", "unknown", "pending"]


class Execution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The intent, and later the result or the error.

    `key` is the idempotency key for the tool. `unknown` is never stored: it is what `started`
    looks like when the lease it began under is gone, so that nobody is left to finish it.
    `pending`: it was recorded before it began, or somebody decided that it is run again; the next
    start of the call begins it. `fence` is None when it began without a lease. `attempts` counts
    how often it was begun.
    """

    id: str
    session: str
    call_id: str
    tool: str
    arguments: Any = None
    key: str = ""
    message_id: str | None = None
    run_id: str | None = None
    ticket: str | None = None
    status: ExecutionStatus = "started"
    result: Any = None
    error: Any = None
    attempts: int = 1
    duration_ms: int = 0
    fence: int | None = None
    mode: ResumeMode | None = None
    decision: Decision | None = None
    created_us: int = 0
    started_us: int = 0
    finished_us: int | None = None

    @property
    def resolved(self) -> bool:
        """Whether its outcome is known."""
        return self.status in ("succeeded", "failed")

    def __repr__(self) -> str:
        return f"<Execution {self.id} {self.tool} {self.status}>"
