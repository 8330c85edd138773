"""A run: one activation of an agent in a session."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

RunStatus = Literal["created", "running", "waiting", "done"]
RUN_STATUSES: tuple[RunStatus, ...] = ("created", "running", "waiting", "done")


class Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a run; `details` holds what later releases give fields of their own."""

    id: str
    session: str
    agent: str = ""
    parent_run: str | None = None
    status: RunStatus = "running"
    input: Any = None
    output: Any = None
    error: Any = None
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

    def __repr__(self) -> str:
        return f"<Run {self.id} {self.status}>"
