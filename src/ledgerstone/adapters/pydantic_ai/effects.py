"""Tool calls of a run as executions: begun before the call, and what came of it.

A call may be told anew: then it is another attempt, and the last attempt is what is known.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai_harness.step_persistence import ToolEffectRecord

from ledgerstone import ids
from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.records.executions import Execution

MARK = "pydantic_ai"
SUPERSEDED = "told anew before its end was known"
_ADAPTER = TypeAdapter(ToolEffectRecord)


async def record(store: AnyStore, session: str, told: ToolEffectRecord) -> None:
    """Begin an execution, or end the one that is under way."""
    said = _dump(told)
    attempts, last = await _attempts(store, session, told.run_id, told.tool_call_id)
    if last is not None and _said(last) == said:
        return
    if told.status != "started" and last is not None and _continues(last, said):
        await _finish(store, last.id, told, said)
        return
    if last is not None and not last.resolved:
        await of(store.executions.finish(last.id, error=SUPERSEDED))
    name = _name(told.run_id, told.tool_call_id, attempts)
    await of(
        store.executions.start(
            session,
            id=_id(session, name),
            call_id=name,
            tool=told.tool_name,
            arguments={MARK: {**said, "status": "started", "ended_at": None}},
            run_id=told.run_id,
            key=told.idempotency_key or None,
        )
    )
    if told.status != "started":
        await _finish(store, _id(session, name), told, said)


async def of_call(store: AnyStore, session: str, run_id: str, call: str) -> ToolEffectRecord | None:
    """What is known of one call."""
    _, last = await _attempts(store, session, run_id, call)
    return None if last is None else _record(last)


async def of_run(store: AnyStore, run_id: str) -> list[ToolEffectRecord]:
    """What is known of each call of a run, in the order they began."""
    found: dict[str, ToolEffectRecord] = {}
    for one in await of(store.executions.list(run_id=run_id)):
        if isinstance(one.arguments, dict) and MARK in one.arguments:
            record = _record(one)
            found[record.tool_call_id] = record
    return list(found.values())


async def _attempts(
    store: AnyStore, session: str, run_id: str, call: str
) -> tuple[int, Execution | None]:
    """How often a call was begun, and the last time it was."""
    count, last = 0, None
    while one := await of(store.executions.get(_id(session, _name(run_id, call, count)))):
        count, last = count + 1, one
    return count, last


async def _finish(store: AnyStore, id: str, told: ToolEffectRecord, said: dict[str, Any]) -> None:
    outcome: dict[str, Any] = {MARK: said}
    if told.status == "completed":
        await of(store.executions.finish(id, result=outcome))
    else:
        await of(store.executions.finish(id, error=outcome))


def _record(one: Execution) -> ToolEffectRecord:
    said = _said(one)
    stamps = {name: _time(said[name]) for name in ("started_at", "ended_at")}
    return _ADAPTER.validate_python({**said, **stamps})


def _id(session: str, name: str) -> str:
    return ids.derive("pydantic-ai", "effect", session, name)


def _said(one: Execution) -> dict[str, Any]:
    """The record as it was told last."""
    outcome = one.result if one.status == "succeeded" else one.error
    if isinstance(outcome, dict) and MARK in outcome:
        found: dict[str, Any] = outcome[MARK]
        return found
    said: dict[str, Any] = one.arguments[MARK]
    return said


def _continues(last: Execution, said: dict[str, Any]) -> bool:
    """Whether a call that is under way is the one whose end is told."""
    begun = last.arguments[MARK]
    return not last.resolved and begun["tool_name"] == said["tool_name"]


def _name(run_id: str, call: str, attempt: int) -> str:
    """Calls of one session need different names, and providers use theirs again in each run."""
    name = f"{run_id}:{call}" + (f"#{attempt + 1}" if attempt else "")
    # With marks of their own, two of them could look alike.
    if len(name) <= ids.ID_CHARS_MAX and ":" not in run_id and "#" not in call:
        return name
    return ids.derive(run_id, call, str(attempt))


def _dump(told: ToolEffectRecord) -> dict[str, Any]:
    ended = told.ended_at
    return {
        **asdict(told),
        "started_at": told.started_at.isoformat(),
        "ended_at": None if ended is None else ended.isoformat(),
    }


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
