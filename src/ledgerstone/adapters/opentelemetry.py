"""Spans of OpenTelemetry, kept as traces of the sessions they are about.

    provider.add_span_processor(BatchSpanProcessor(LedgerSpanExporter(store)))

A span says which session it belongs to by its attribute ledgerstone.session, session.id or
gen_ai.conversation.id; a span that does not is of the exporter's session, if it has one, and is
dropped and counted otherwise: a span inside another does not inherit its attributes, so set them on
each, as a baggage span processor does. Needs the extra: pip install "ledgerstone[otel]".
"""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ledgerstone import ids
from ledgerstone.api_sync.store import Store
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.intake.evidence import trace_of
from ledgerstone.records.evidence import TraceEvent

try:
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import StatusCode, format_span_id, format_trace_id
except ImportError as error:
    raise ImportError(
        "ledgerstone.adapters.opentelemetry needs opentelemetry-sdk: "
        'pip install "ledgerstone[otel]"'
    ) from error

SESSION_KEYS = ("ledgerstone.session", "session.id", "gen_ai.conversation.id")
RUN_KEY = "ledgerstone.run"
NS_PER_MS = 1_000_000
NS_PER_US = 1000

_CONTENT = re.compile(
    r"gen_ai\..*messages|gen_ai\.system_instructions|gen_ai\.tool\.call\.(arguments|result)"
    r"|.*\.content|(input|output)\.value|.*prompt.*|.*completion.*",
    re.IGNORECASE,
)
_log = logging.getLogger(__name__)


def is_content(key: str, value: object) -> bool:
    """Whether an attribute carries what was said: prompts, completions, messages.

    Counts of tokens are numbers and stay.
    """
    return not isinstance(value, bool | int | float) and _CONTENT.fullmatch(key) is not None


class LedgerSpanExporter(SpanExporter):
    """Writes spans to `store.traces`, as events of the kind "span".

    `leave_out(key, value)` says which attributes are not kept (their keys are): by default what
    carries messages. `dropped` counts spans that belong to no session or cannot be an event,
    `failed` those that the store did not take.
    """

    def __init__(
        self,
        store: Store,
        *,
        session: SessionRef | None = None,
        leave_out: Callable[[str, Any], bool] = is_content,
    ) -> None:
        if not isinstance(store, Store):
            raise InvalidValue("store", f"a blocking Store expected, got {type(store).__name__}")
        self._store = store
        self._session = None if session is None else checks.session_id(session)
        self._leave_out = leave_out
        self._lock = threading.Lock()
        self._shut = False
        self.dropped = 0
        self.failed = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append them to their sessions; FAILURE when the store did not take all. Never raises.

        The same spans again, right after, are not added twice.
        """
        if self._shut:
            return self._lost(len(spans))
        complete = True
        for session, group in self._by_session(spans).items():
            key = ids.derive("otel", *(name for name, _ in group))
            try:
                self._store.traces.append(session, *(event for _, event in group), key=key)
            except Exception:
                _log.warning(
                    "%d spans of session %r were not kept", len(group), session, exc_info=True
                )
                self._lost(len(group))
                complete = False
        return SpanExportResult.SUCCESS if complete else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Take no more; the store stays open, it is the caller's."""
        self._shut = True

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits here: what was exported is stored."""
        return True

    def _lost(self, count: int) -> SpanExportResult:
        with self._lock:
            self.failed += count
        return SpanExportResult.FAILURE

    def _by_session(self, spans: Sequence[ReadableSpan]) -> dict[str, list[tuple[str, TraceEvent]]]:
        """The spans of each session in order, each with its own name."""
        groups: dict[str, list[tuple[str, TraceEvent]]] = {}
        for span in spans:
            try:
                session = self._session_of(span)
                event = self._event(span)
            except Exception as error:
                with self._lock:
                    self.dropped += 1
                _log.warning("a span was dropped: %s", error)
            else:
                groups.setdefault(session, []).append((_name_of(span), event))
        return groups

    def _session_of(self, span: ReadableSpan) -> str:
        attributes = span.attributes or {}
        for key in SESSION_KEYS:
            if attributes.get(key) not in (None, ""):
                return ids.check_id(attributes[key], key)
        if self._session is None:
            raise InvalidValue("session", f"span {span.name!r:.80} has none of {SESSION_KEYS}")
        return self._session

    def _event(self, span: ReadableSpan) -> TraceEvent:
        attributes, kept = span.attributes or {}, self._kept(span.attributes)
        start_ns = span.start_time or 0
        run = attributes.get(RUN_KEY)
        return trace_of(
            _printable(span.name),
            kind="span",
            success=span.status.status_code is not StatusCode.ERROR,
            duration_ms=max((span.end_time or start_ns) - start_ns, 0) // NS_PER_MS,
            metadata={key: kept.get(key) for key in attributes},
            details=self._details(span, kept),
            run_id=run if isinstance(run, str) and run else None,
            at_us=start_ns // NS_PER_US if start_ns else None,
        )

    def _details(self, span: ReadableSpan, kept: dict[str, Any]) -> dict[str, Any]:
        """What is known of the span, without empty fields."""
        trace, own = _ids(span.context)
        scope = span.instrumentation_scope
        details = {
            "trace_id": trace,
            "span_id": own,
            "parent_id": None if span.parent is None else format_span_id(span.parent.span_id),
            "span_kind": span.kind.name.lower(),
            "status": span.status.status_code.name.lower(),
            "reason": span.status.description,
            "scope": None if scope is None else scope.name,
            "service": span.resource.attributes.get("service.name"),
            "attributes": kept,
            "events": [self._happening(event) for event in span.events],
            "links": [
                dict(zip(("trace_id", "span_id"), _ids(link.context), strict=True))
                for link in span.links
            ],
        }
        return {key: value for key, value in details.items() if value not in (None, {}, [])}

    def _happening(self, event: Event) -> dict[str, Any]:
        attributes = self._kept(event.attributes)
        found = {"name": event.name, "at_us": event.timestamp // NS_PER_US}
        return {**found, "attributes": attributes} if attributes else found

    def _kept(self, attributes: Mapping[str, Any] | None) -> dict[str, Any]:
        found = attributes or {}
        return {
            key: _json(value) for key, value in found.items() if not self._leave_out(key, value)
        }


def _ids(context: Any) -> tuple[str, str]:
    return format_trace_id(context.trace_id), format_span_id(context.span_id)


def _name_of(span: ReadableSpan) -> str:
    return "/".join(_ids(span.context))


def _printable(name: str) -> str:
    """A span's name as the name of an event: they may be anything."""
    text = "".join(c if c.isprintable() else " " for c in name[: ids.LABEL_CHARS_MAX])
    return text.strip() or "unnamed"


def _json(value: Any) -> Any:
    """An attribute's value as JSON has it."""
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_json(item) for item in value]
    return value.hex() if isinstance(value, bytes) else str(value)
