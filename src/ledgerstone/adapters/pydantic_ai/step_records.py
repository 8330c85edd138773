"""Records of the harness as ours: runs, events as JSON, and tool calls as executions.

A call may be told anew: then it is another attempt, and the last attempt is what is known.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from pydantic import TypeAdapter
from pydantic_ai_harness.step_persistence import RunRecord, StepEvent, ToolEffectRecord

from ledgerstone import ids
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.clock import to_us, wall_ns
from ledgerstone.records.executions import Execution
from ledgerstone.records.runs import Run

RUN = "pydantic-ai.run"
EVENT = "event."
DETAIL = "pydantic_ai"
SUPERSEDED = "told anew before its end was known"
ENDS = ("run_completed", "run_failed")

_EVENTS = TypeAdapter(StepEvent)
_RUNS = TypeAdapter(RunRecord)
_EFFECTS = TypeAdapter(ToolEffectRecord)
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


async def record_effect(store: AnyStore, session: str, told: ToolEffectRecord) -> None:
    """Begin an execution, or end the one that is under way."""
    said = _dump_effect(told)
    attempts, last = await _attempts(store, session, told.run_id, told.tool_call_id)
    if last is not None and _said(last) == said:
        return
    if told.status != "started" and last is not None and _continues(last, said):
        await _finish(store, last.id, told, said)
        return
    if last is not None and not last.resolved:
        await of(store.executions.finish(last.id, error=SUPERSEDED))
    name = _call_name(told.run_id, told.tool_call_id, attempts)
    await of(
        store.executions.start(
            session,
            id=_effect_id(session, name),
            call_id=name,
            tool=told.tool_name,
            arguments={DETAIL: {**said, "status": "started", "ended_at": None}},
            run_id=told.run_id,
            key=told.idempotency_key or None,
        )
    )
    if told.status != "started":
        await _finish(store, _effect_id(session, name), told, said)


async def effect_of_call(
    store: AnyStore, session: str, run_id: str, call: str
) -> ToolEffectRecord | None:
    """What is known of one call."""
    _, last = await _attempts(store, session, run_id, call)
    return None if last is None else _effect(last)


async def effects_of_run(store: AnyStore, run_id: str) -> list[ToolEffectRecord]:
    """What is known of each call of a run, in the order they began."""
    found: dict[str, ToolEffectRecord] = {}
    for one in await of(store.executions.list(run_id=run_id)):
        if isinstance(one.arguments, dict) and DETAIL in one.arguments:
            record = _effect(one)
            found[record.tool_call_id] = record
    return list(found.values())


async def _attempts(
    store: AnyStore, session: str, run_id: str, call: str
) -> tuple[int, Execution | None]:
    """How often a call was begun, and the last time it was."""
    count, last = 0, None
    while one := await of(
        store.executions.get(_effect_id(session, _call_name(run_id, call, count)))
    ):
        count, last = count + 1, one
    return count, last


async def _finish(store: AnyStore, id: str, told: ToolEffectRecord, said: dict[str, Any]) -> None:
    outcome: dict[str, Any] = {DETAIL: said}
    if told.status == "completed":
        await of(store.executions.finish(id, result=outcome))
    else:
        await of(store.executions.finish(id, error=outcome))


def _effect(one: Execution) -> ToolEffectRecord:
    said = _said(one)
    stamps = {name: _time(said[name]) for name in ("started_at", "ended_at")}
    return _EFFECTS.validate_python({**said, **stamps})


def _effect_id(session: str, name: str) -> str:
    return ids.derive("pydantic-ai", "effect", session, name)


def _said(one: Execution) -> dict[str, Any]:
    """The record as it was told last."""
    outcome = one.result if one.status == "succeeded" else one.error
    if isinstance(outcome, dict) and DETAIL in outcome:
        found: dict[str, Any] = outcome[DETAIL]
        return found
    said: dict[str, Any] = one.arguments[DETAIL]
    return said


def _continues(last: Execution, said: dict[str, Any]) -> bool:
    """Whether a call that is under way is the one whose end is told."""
    begun = last.arguments[DETAIL]
    return not last.resolved and begun["tool_name"] == said["tool_name"]


def _call_name(run_id: str, call: str, attempt: int) -> str:
    """Calls of one session need different names, and providers use theirs again in each run."""
    name = f"{run_id}:{call}" + (f"#{attempt + 1}" if attempt else "")
    # With marks of their own, two of them could look alike.
    if len(name) <= ids.ID_CHARS_MAX and ":" not in run_id and "#" not in call:
        return name
    return ids.derive(run_id, call, str(attempt))


def _dump_effect(told: ToolEffectRecord) -> dict[str, Any]:
    ended = told.ended_at
    return {
        **asdict(told),
        "started_at": told.started_at.isoformat(),
        "ended_at": None if ended is None else ended.isoformat(),
    }


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
