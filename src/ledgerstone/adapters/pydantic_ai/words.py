"""Names in a store that more than one of these adapters reads."""

from __future__ import annotations

from typing import Any

APP = "pydantic-ai"
"""The app of their sessions."""
STEPS = "pydantic-ai.steps"
"""In a session's state: where a LedgerStepStore moved main, which is no other writer's doing."""


def steps_of(state: dict[str, Any], session: str) -> dict[str, Any]:
    """Where steps moved main; those of a session that this one was copied from moved nothing."""
    steps: dict[str, Any] = state.get(STEPS) or {}
    return steps if steps.get("session") == session else {}
