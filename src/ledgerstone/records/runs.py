"""A run: one activation of an agent in a session, from its request to its outcome."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from ledgerstone.errors import InvalidValue
from ledgerstone.records.decisions import CallDecision, ResumeMode

RunStatus = Literal["created", "running", "waiting", "done"]
RUN_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)

Origin = Literal["user", "a2a", "internal"]
WaitingReason = Literal[
    "tool_permission",
    "user_input",
    "background_tasks",
    "external_event",
    "rate_limit",
    "manual_pause",
]
WAITING_REASONS: tuple[WaitingReason, ...] = get_args(WaitingReason)
TerminationKind = Literal[
    "natural_end", "behavior_requested", "stopped", "cancelled", "blocked", "suspended", "error"
]


class RunPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every part of a run's record is: a value whose absent fields are not written."""


class RunRequest(RunPart, frozen=True, kw_only=True):
    """The request that made or resumed the run, as it came in."""

    origin: Origin = "user"
    sender: str | None = None
    input_messages: list[str] = []
    input_count: int = 0
    extras: Any = None
    decisions: list[CallDecision] = []
    frontend_tools: list[Any] = []
    parent_session: str | None = None
    transport_id: str | None = None


class SeqRange(msgspec.Struct, frozen=True):
    """Messages by their positions on the path, first and last included, counted from 1."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.last:
            raise InvalidValue("range", f"{self.first} to {self.last} is no range of messages")

    def __len__(self) -> int:
        return self.last - self.first + 1


class RunInput(RunPart, frozen=True, kw_only=True):
    """What the run reads: a range of a session, a selection, or a compacted snapshot of it."""

    session: str = ""
    range: SeqRange | None = None
    triggers: list[str] = []
    selected: list[str] = []
    context_policy: str | None = None
    compacted_snapshot: str | None = None
    data: Any = None


class RunOutput(RunPart, frozen=True, kw_only=True):
    """What the run wrote: a range of a session, and the messages in the order they came."""

    session: str = ""
    range: SeqRange | None = None
    messages: list[str] = []
    data: Any = None


class WaitingTicket(RunPart, frozen=True, kw_only=True):
    """A ticket as the waiting run knows it; the ticket itself is in `store.tickets`."""

    id: str
    call_id: str
    tool: str
    arguments: Any = None
    mode: ResumeMode = "replay_tool_call"
    reason: str | None = None
    updated_us: int = 0


class Waiting(RunPart, frozen=True, kw_only=True):
    """Why a run waits, and for what."""

    reason: WaitingReason
    ticket_ids: list[str] = []
    tickets: list[WaitingTicket] = []
    since_dispatch: str | None = None
    message: str | None = None


class Termination(RunPart, frozen=True, kw_only=True):
    """Why a run ended; `value` is the text of blocked and error, code and detail of stopped."""

    type: TerminationKind
    value: Any = None


class Outcome(RunPart, frozen=True, kw_only=True):
    """How a run ended."""

    termination: Termination
    final_output: str | None = None
    error: Any = None


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a run; `details` is the caller's own."""

    id: str
    session: str
    agent: str = ""
    parent_run: str | None = None
    status: RunStatus = "running"
    request: RunRequest | None = None
    input: RunInput | None = None
    output: RunOutput | None = None
    termination: Termination | None = None
    final_output: str | None = None
    error: Any = None
    dispatch_id: str | None = None
    external_id: str | None = None
    transport_id: str | None = None
    waiting: Waiting | None = None
    outcome: Outcome | None = None
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    state: Any = None
    details: dict[str, Any] = {}
    incarnation: int = 1
    created_us: int = 0
    started_us: int | None = None
    finished_us: int | None = None
    updated_us: int = 0

    @property
    def waiting_reason(self) -> WaitingReason | None:
        """Why it waits; None unless it does, whatever an earlier wait left behind."""
        if self.status != "waiting" or self.waiting is None:
            return None
        return self.waiting.reason

    @property
    def resumable(self) -> bool:
        """Whether it waits for something that can come."""
        return self.waiting_reason is not None

    @property
    def waits_for_background(self) -> bool:
        """Whether it only waits for its own background tasks."""
        return self.waiting_reason == "background_tasks"

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.status}>"


class RunTree(msgspec.Struct, frozen=True):
    """A run and what it made others do, over sessions."""

    run: Run
    children: list[RunTree] = []

    def walk(self) -> list[Run]:
        """All of its runs, parents before children."""
        found, stack = [], [self]
        while stack:
            tree = stack.pop()
            found.append(tree.run)
            stack.extend(reversed(tree.children))
        return found
