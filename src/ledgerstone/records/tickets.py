"""A ticket: a tool call that waits for somebody's decision."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, get_args

import msgspec

from ledgerstone.clock import to_datetime
from ledgerstone.records import Created
from ledgerstone.records.decisions import Decision, ResumeMode

TicketStatus = Literal["open", "resolved", "withdrawn"]
TICKET_STATUSES: tuple[TicketStatus, ...] = get_args(TicketStatus)
ExpiryAction = Literal["reject", "approve"]
EXPIRY_ACTIONS: tuple[ExpiryAction, ...] = get_args(ExpiryAction)


class Ticket(Created, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked, and what was decided.

    `digest` is over the tool, its arguments and the revision of the session that it was asked at;
    edited arguments make a new one. `node` is the message with the tool call, when it is known.
    """

    id: str
    session: str
    call_id: str
    tool: str
    arguments: Any = None
    run_id: str | None = None
    node: str | None = None
    mode: ResumeMode = "replay_tool_call"
    reason: str | None = None
    message: str | None = None
    response_schema: Any = None
    status: TicketStatus = "open"
    revision: int = 0
    digest: str = ""
    expires_us: int | None = None
    on_expiry: ExpiryAction = "reject"
    decision: Decision | None = None
    user: str | None = None
    created_us: int = 0
    updated_us: int = 0

    @property
    def expires_at(self) -> datetime | None:
        return None if self.expires_us is None else to_datetime(self.expires_us)

    @property
    def approved(self) -> bool:
        """Whether the tool may run."""
        return self.decision is not None and self.decision.action == "resume"

    @property
    def effective_arguments(self) -> Any:
        """The arguments that were approved: edited ones, else those that were asked about."""
        if self.decision is None or self.decision.arguments is msgspec.UNSET:
            return self.arguments
        return self.decision.arguments

    def __repr__(self) -> str:
        return f"<Ticket {self.id} {self.tool} {self.status}>"
