"""Names in a store that more than one of these adapters reads."""

from __future__ import annotations

APP = "pydantic-ai"
"""The app of their sessions."""
STEPS = "pydantic-ai.steps"
"""In a session's state: where a LedgerStepStore moved main, which is no other writer's doing."""
