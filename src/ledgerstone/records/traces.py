"""Traces: what an agent did besides talking, event by event."""

from __future__ import annotations

from typing import Any

import msgspec

TRACE_SCHEMA = "ledgerstone.trace_event.v1"


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event. Kinds: tool_execution, program_execution, span, or the caller's own."""

    kind: str
    name: str
    success: bool = True
    exit_code: int | None = None
    duration_ms: int = 0
    output_bytes: int = 0
    metadata_keys: list[str] = []
    artifact_uris: list[str] = []
    details: Any = None
    run_id: str | None = None
    at_us: int | None = None
    schema: str = TRACE_SCHEMA


class TraceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An event at its place in the session's list, counted from 1."""

    n: int
    event: TraceEvent
    created_us: int
