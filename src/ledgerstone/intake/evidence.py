"""Traces and reports as callers may give them, and as they are stored: canonical JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import NODEFAULT, UNSET
from msgspec.structs import fields, replace

from ledgerstone import ids
from ledgerstone.codec import check_json, decode_struct, encode_given
from ledgerstone.commands.evidence import EvidenceRow, Kind
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.content import Content
from ledgerstone.intake.misfits import misfit
from ledgerstone.records.evidence import CHECK_STATUSES, Check, Report, TraceEvent

T = TypeVar("T", bound=msgspec.Struct)

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
        _refuse_unknown(value, self._record, self.field)
        check_json(value.get("details"), f"{self.field}.details")
        try:
            found = msgspec.convert(value, self._record)
        except (msgspec.ValidationError, TypeError) as error:
            raise misfit(self.field, error, CHECK_STATUSES) from None
        return _default(self._check(found, value, self.field))

    def encode(self, document: T) -> bytes:
        """The body of its row; InvalidValue for what only looks like text or a number."""
        try:
            return encode_given(document, self.field)
        except TypeError as error:
            raise InvalidValue(self.field, str(error)) from None

    def bodies(self, values: Iterable[object]) -> tuple[bytes, ...]:
        """Several, as they are stored."""
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
            _refuse_unknown(raw, Check, place)
    return replace(report, checks=[_default(check) for check in report.checks])


def _plain(value: object) -> object:
    """Our records as dictionaries: nobody has checked the types of their fields yet."""
    if isinstance(value, TraceEvent | Report | Check):
        plain = {name: getattr(value, name) for name in value.__struct_fields__}
        if isinstance(plain.get("checks"), list | tuple):
            plain["checks"] = [_plain(check) for check in plain["checks"]]
        return {name: item for name, item in plain.items() if item is not UNSET}
    return value


def _refuse_unknown(value: Mapping[Any, Any], record: type[msgspec.Struct], field: str) -> None:
    unknown = [key for key in value if key not in record.__struct_fields__]
    if unknown:
        known = ", ".join(record.__struct_fields__)
        raise InvalidValue(field, f"no field is called {unknown[0]!r:.40}; there are {known}")


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


def add_trace(content: Content, given: AnyEvent) -> TraceEvent:
    """An event that comes with a commit, about the turn's run unless it says otherwise."""
    event = TRACES.take(given)
    if event.run_id is None and content.run_id is not None:
        event = replace(event, run_id=content.run_id)
    content.extend("traces", (TRACES.encode(event),))
    return event


def add_report(content: Content, given: AnyReport) -> Report:
    """A report that comes with a commit."""
    report = REPORTS.take(given)
    content.extend("reports", (REPORTS.encode(report),))
    return report
