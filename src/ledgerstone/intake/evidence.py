"""Traces and reports as callers may give them, and as they are stored: canonical JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import NODEFAULT, UNSET
from msgspec.structs import fields, replace

from ledgerstone import ids
from ledgerstone.codec import check_json, decode_struct, encode_given
from ledgerstone.commands.evidence import EvidenceRow, Kind
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.invalid import invalid_value
from ledgerstone.records.evidence import CHECK_STATUSES, Check, Report, TraceEvent

T = TypeVar("T", bound=msgspec.Struct)
_URI_KEYS = ("artifact_uri", "artifact_uris")

AnyEvent: TypeAlias = TraceEvent | Mapping[str, Any]
AnyReport: TypeAlias = Report | Mapping[str, Any]


class Form(Generic[T]):
    """How documents of one kind are read from callers and from rows."""

    def __init__(
        self,
        kind: Kind,
        field: str,
        record: type[T],
        check: Callable[[T, Mapping[Any, Any], str], T],
    ) -> None:
        self.kind = kind
        self.field = field
        self._record = record
        self._check = check
        self._decoder = msgspec.json.Decoder(record)

    def take(self, value: object) -> T:
        """The document that was given, checked and in its one form; InvalidValue."""
        value = _plain(value)
        if not isinstance(value, Mapping):
            name = self._record.__name__
            raise InvalidValue(self.field, f"a {name} or a dictionary expected, got {value!r:.40}")
        checks.known_fields(value, self._record.__struct_fields__, self.field)
        check_json(value.get("details"), f"{self.field}.details")
        try:
            found = msgspec.convert(value, self._record)
        except (msgspec.ValidationError, TypeError) as error:
            raise invalid_value(self.field, error, CHECK_STATUSES) from None
        return _default(self._check(found, value, self.field))

    def encode(self, document: T) -> bytes:
        """The body of its row; InvalidValue for what only looks like text or a number."""
        try:
            return encode_given(document, self.field)
        except TypeError as error:
            raise InvalidValue(self.field, str(error)) from None

    def bodies(self, values: Iterable[object]) -> tuple[bytes, ...]:
        found = checks.items(values, f"{self.field}s")
        return tuple(self.encode(self.take(value)) for value in found)

    def read(self, session: str, row: EvidenceRow) -> T:
        """A document from its row; Corrupt when it does not decode."""
        try:
            return decode_struct(self._decoder, row.body)
        except (msgspec.MsgspecError, ValueError) as error:
            place = f"{session}/{self.kind}/{row.n}"
            raise Corrupt("evidence", place, "body", str(error)) from None


def _checked_event(event: TraceEvent, given: Mapping[Any, Any], field: str) -> TraceEvent:
    ids.check_name(event.kind, f"{field}.kind")
    ids.check_name(event.name, f"{field}.name")
    ids.check_name(event.schema, f"{field}.schema")
    checks.whole(event.duration_ms, f"{field}.duration_ms")
    checks.whole(event.output_bytes, f"{field}.output_bytes")
    for number, name in ((event.exit_code, "exit_code"), (event.at_us, "at_us")):
        if number is not None and abs(number) >= checks.INT_BOUND:
            raise InvalidValue(f"{field}.{name}", "beyond the range of integers")
    return replace(
        event,
        run_id=checks.maybe_id(event.run_id, f"{field}.run_id"),
        metadata_keys=sorted(event.metadata_keys),
        artifact_uris=sorted(set(event.artifact_uris)),
    )


def _checked_report(report: Report, given: Mapping[Any, Any], field: str) -> Report:
    checks.text(report.subject, f"{field}.subject")
    ids.check_name(report.schema, f"{field}.schema")
    for n, (check, raw) in enumerate(zip(report.checks, given.get("checks", ()), strict=False)):
        place = f"{field}.checks[{n}]"
        ids.check_id(check.id, f"{place}.id")
        if isinstance(raw, Mapping):
            checks.known_fields(raw, Check.__struct_fields__, place)
    return replace(report, checks=[_default(check) for check in report.checks])


def _plain(value: object) -> object:
    """Our records as dictionaries: nobody has checked the types of their fields yet."""
    if isinstance(value, TraceEvent | Report | Check):
        plain = {name: getattr(value, name) for name in value.__struct_fields__}
        if isinstance(plain.get("checks"), list | tuple):
            plain["checks"] = [_plain(check) for check in plain["checks"]]
        return {name: item for name, item in plain.items() if item is not UNSET}
    return value


def _default(value: T) -> T:
    """Equal values get the same bytes: a default is left out by identity, so it has to be it."""
    same = {
        field.name: field.default
        for field in fields(value)
        if field.default is not NODEFAULT
        and field.default is not getattr(value, field.name)
        and field.default == getattr(value, field.name)
    }
    return replace(value, **same) if same else value


TRACES = Form("trace", "event", TraceEvent, _checked_event)
REPORTS = Form("report", "report", Report, _checked_report)


def trace_of(
    name: str,
    *,
    success: bool,
    output: str | bytes | bytearray | memoryview | None = None,
    metadata: Mapping[str, Any] | None = None,
    details: Any = None,
    kind: str = "tool_execution",
    exit_code: int | None = None,
    duration_ms: int = 0,
    run_id: str | None = None,
    at_us: int | None = None,
) -> TraceEvent:
    """An event about one call: of the output only the size stays, of the metadata only the keys.

    The uris of artifacts are collected from metadata and details, however deep: what stands under
    artifact_uri or artifact_uris, and every word that begins with "artifact:". InvalidValue.
    """
    return TRACES.take(
        TraceEvent(
            kind=kind,
            name=name,
            success=success,
            exit_code=exit_code,
            duration_ms=duration_ms,
            output_bytes=_size(output),
            metadata_keys=_keys(metadata),
            artifact_uris=[*_uris(metadata), *_uris(details)],
            details=details,
            run_id=run_id,
            at_us=at_us,
        )
    )


def _size(output: object) -> int:
    if output is None:
        return 0
    if isinstance(output, str):
        return len(output.encode("utf-8", "surrogatepass"))
    if isinstance(output, bytes | bytearray | memoryview):
        return memoryview(output).nbytes
    raise InvalidValue("output", f"text or bytes expected, got {type(output).__name__}")


def _keys(metadata: object) -> list[str]:
    if metadata is None:
        return []
    if not isinstance(metadata, Mapping):
        raise InvalidValue("metadata", f"a dictionary expected, got {type(metadata).__name__}")
    for key in metadata:
        if not isinstance(key, str):
            raise InvalidValue("metadata", f"keys must be text, got {type(key).__name__}")
    return list(metadata)


def _uris(value: object) -> Iterator[str]:
    todo: list[tuple[object, bool]] = [(value, False)]
    seen: dict[tuple[int, bool], object] = {}  # With the values: ids of dead ones come again.
    while todo:
        found, is_uri = todo.pop()
        if isinstance(found, str):
            if is_uri or (found.startswith("artifact:") and len(found.split()) == 1):
                yield found
        elif (id(found), is_uri) in seen:
            continue  # A value may hold itself.
        elif isinstance(found, Mapping):
            seen[id(found), is_uri] = found
            todo += [(item, key in _URI_KEYS) for key, item in found.items()]
        elif isinstance(found, list | tuple):
            seen[id(found), is_uri] = found
            todo += [(item, is_uri) for item in found]
