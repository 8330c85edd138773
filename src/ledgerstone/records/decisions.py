"""Decisions: what somebody said to a tool call that waited for them."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

ResumeMode = Literal["replay_tool_call", "use_decision_as_tool_result", "pass_decision_to_tool"]
RESUME_MODES: tuple[ResumeMode, ...] = get_args(ResumeMode)
Action = Literal["resume", "cancel"]
ACTIONS: dict[str, Action] = {
    "resume": "resume",
    "approve": "resume",
    "cancel": "cancel",
    "reject": "cancel",
}
"""The words that callers may use, and what they mean."""


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One decision; `id` is its idempotency key, `arguments` are there when they were edited."""

    id: str = ""
    action: Action
    by: str | None = None
    result: Any = None
    reason: str | None = None
    arguments: Any = msgspec.UNSET
    expired: bool = False
    decided_us: int = 0


class CallDecision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision that came with the request of a run, and the tool call it is about."""

    call_id: str
    decision: Decision
