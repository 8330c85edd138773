"""Runs as callers give them: records, dictionaries of their fields, or plain JSON.

Whatever does not fit is an InvalidValue that names the field, down to the place inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.codec import encode_json
from ledgerstone.commands import Guard
from ledgerstone.commands.runs import RunFilter
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.invalid import invalid_value
from ledgerstone.records.decisions import CallDecision, Decision
from ledgerstone.records.leases import AnyLease, Held, Lease
from ledgerstone.records.runs import (
    RUN_STATUSES,
    Outcome,
    Run,
    RunInput,
    RunOutput,
    RunPart,
    RunRequest,
    SeqRange,
    Termination,
    Waiting,
)
from ledgerstone.rules.run import FIXED

Check = Callable[[Any, str], Any]

_RECORDS = (RunPart, SeqRange, CallDecision, Decision)
_RECORD_DEPTH = 4
"""A request holds a list of decisions, each with the decision in it."""
_ALIASES = {"plugin_requested": "behavior_requested"}
"""Other words for how a run ended."""


def run_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a run as they are stored; InvalidValue names the first that does not fit."""
    found = {}
    for name, value in fields.items():
        check = _CHECKS.get(name)
        if check is None:
            raise InvalidValue(name, "a run has no such field")
        found[name] = check(value, name)
    return found


def run_changes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a run that is there: not all of it can be changed."""
    for name in fields:
        if name in FIXED:
            raise InvalidValue(name, "it cannot be changed in a run that is there")
    changes = {name: value for name, value in fields.items() if name != "status"}
    found = run_fields(changes)
    if "status" in fields:
        found["status"] = checks.one_of(fields["status"], RUN_STATUSES, "status")
    return found


def checked_run(run: Run) -> Run:
    """The run, once every field is known to be storable."""
    if not isinstance(run, Run):
        raise InvalidValue("run", f"a Run expected, got {type(run).__name__}")
    ids.check_id(run.id, "id")
    given = {name: getattr(run, name) for name in _CHECKS}
    return replace(
        run, status=checks.one_of(run.status, RUN_STATUSES, "status"), **run_fields(given)
    )


def run_guard(run: Any, lease: AnyLease | None, expected_revision: int | None) -> Guard:
    """Under which ownership a run may change; only a record says whose run it is."""
    if isinstance(run, Run):
        checks.bound(run, lease)
    elif lease is not None and not isinstance(lease, Lease | Held):
        raise InvalidValue("lease", f"a Lease expected, got {type(lease).__name__}")
    return checks.guard(lease, expected_revision)


def run_filter(session: Any, status: Any, parent_run: Any) -> RunFilter:
    return RunFilter(
        session=checks.maybe_session(session),
        status=checks.maybe_one_of(status, RUN_STATUSES, "status"),
        parent_run=checks.maybe_id(parent_run, "parent_run"),
    )


def _part(kind: type[msgspec.Struct]) -> Check:
    """A record, or a dictionary of its fields."""

    def check(value: Any, field: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, (kind, dict)):
            raise InvalidValue(field, f"a {kind.__name__} or its fields expected")
        return _record(kind, _plain(value), field)

    return check


def _open_part(kind: type[RunInput | RunOutput]) -> Check:
    """The same, and any other JSON value becomes its `data`."""

    def check(value: Any, field: str) -> Any:
        if value is None:
            return None
        if isinstance(value, kind):
            return _record(kind, _plain(value), field)
        if isinstance(value, dict) and value.keys() <= set(kind.__struct_fields__):
            return _record(kind, _plain(value), field)
        return kind(data=checks.json_value(value, field))

    return check


def _plain(value: Any, depth: int = _RECORD_DEPTH) -> Any:
    """Our records as dictionaries; whatever else stands in them stays what it is."""
    if not depth:
        return value
    if isinstance(value, _RECORDS):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        value = {name: item for name, item in fields.items() if item is not msgspec.UNSET}
    if isinstance(value, list | tuple):
        return [_plain(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item, depth - 1) for name, item in value.items()}
    return value


def _record(kind: type[msgspec.Struct], plain: dict[str, Any], field: str) -> Any:
    _rename_termination(plain)
    encode_json(plain, field)
    try:
        found = msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise invalid_value(field, error) from None
    except InvalidValue as error:
        raise InvalidValue(f"{field}.{error.field}", error.reason) from None
    _refuse_unknown(plain, found, field)
    return found


def _rename_termination(plain: dict[str, Any]) -> None:
    inner = plain.get("termination")
    if isinstance(inner, dict):
        _rename_termination(inner)
    word = plain.get("type")
    if isinstance(word, str) and word in _ALIASES:
        plain["type"] = _ALIASES[word]


def _refuse_unknown(plain: Any, found: Any, field: str) -> None:
    """InvalidValue for what would be lost: fields that a record does not have."""
    if isinstance(found, list) and found and isinstance(found[0], _RECORDS):
        for n, (given, item) in enumerate(zip(plain, found, strict=True)):
            _refuse_unknown(given, item, f"{field}[{n}]")
    elif isinstance(found, _RECORDS):
        for name, given in plain.items():
            if name not in found.__struct_fields__:
                raise InvalidValue(f"{field}.{name:.64}", "there is no such field")
            _refuse_unknown(given, getattr(found, name), f"{field}.{name}")


def _free_text(value: Any, field: str) -> str | None:
    """Text of any length that comes back as it was given."""
    if value is not None and not isinstance(value, str):
        raise InvalidValue(field, f"text expected, got {type(value).__name__}")
    return None if value is None else str(checks.json_value(value, field))


_CHECKS: dict[str, Check] = {
    "agent": ids.check_label,
    "parent_run": checks.maybe_id,
    "request": _part(RunRequest),
    "input": _open_part(RunInput),
    "output": _open_part(RunOutput),
    "termination": _part(Termination),
    "final_output": _free_text,
    "error": checks.json_value,
    "dispatch_id": checks.maybe_text,
    "external_id": checks.maybe_text,
    "transport_id": checks.maybe_text,
    "waiting": _part(Waiting),
    "outcome": _part(Outcome),
    "steps": checks.whole,
    "input_tokens": checks.whole,
    "output_tokens": checks.whole,
    "state": checks.json_value,
    "details": checks.json_object,
    "created_us": checks.micros,
    "started_us": checks.maybe_micros,
    "finished_us": checks.maybe_micros,
    "updated_us": checks.micros,
}
"""How each field of a run is checked; what is not here is no field that callers give."""
