"""Records of the harness as ours: runs, and events as JSON."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from pydantic import TypeAdapter
from pydantic_ai_harness.step_persistence import RunRecord, StepEvent

from ledgerstone.clock import to_us, wall_ns
from ledgerstone.records.runs import Run

RUN = "pydantic-ai.run"
EVENT = "event."
DETAIL = "pydantic_ai"
ENDS = ("run_completed", "run_failed")

_EVENTS = TypeAdapter(StepEvent)
_RUNS = TypeAdapter(RunRecord)
_last_order = 0


def event_order() -> int:
    """A number greater than those before it, also those of an earlier process."""
    global _last_order  # noqa: PLW0603
    _last_order = max(wall_ns(), _last_order + 1)
    return _last_order


def dump_event(event: StepEvent) -> dict[str, Any]:
    return {**asdict(event), "timestamp": event.timestamp.isoformat()}


def read_event(body: dict[str, Any]) -> StepEvent:
    said = {name: value for name, value in body.items() if name != "order"}
    return _EVENTS.validate_python({**said, "timestamp": datetime.fromisoformat(said["timestamp"])})


def end_of(event: StepEvent) -> dict[str, Any]:
    """What the last event of a run says about it."""
    if event.kind == "run_completed":
        return {"status": "done", "termination": {"type": "natural_end"}}
    error = event.error or "failed"
    return {"status": "done", "termination": {"type": "error", "value": error}}


def run_of(record: RunRecord, session: str, known: Run | None) -> Run:
    """The run; what ours has no field for is in its details.

    What became of a run that is known already is not for a registration to take back.
    """
    started = record.started_at
    said = {**asdict(record), "started_at": started.isoformat()}
    run = known or Run(id=record.run_id, session=session)
    return replace(
        run,
        agent=record.agent_name or "",
        parent_run=record.parent_run_id,
        details={**run.details, DETAIL: said},
        created_us=to_us(started) if started.tzinfo else run.created_us,
    )


def is_ours(run: Run) -> bool:
    return DETAIL in run.details


def record_of(run: Run) -> RunRecord:
    said = run.details[DETAIL]
    return _RUNS.validate_python({**said, "started_at": datetime.fromisoformat(said["started_at"])})
