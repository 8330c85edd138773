"""Traces and reports that are none are refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import Check, Report, TraceEvent
from ledgerstone.errors import InvalidValue
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.evidence import BOTH, SAVED, lists

__all__ = ["TestEvidenceInput"]


WRONG: Any = "wrong"
NONE: Any = None
RAW: Any = b"raw"
ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
BAD_EVENTS: dict[str, Any] = {
    "no dictionary": 7,
    "text": "grep",
    "no name": {"kind": "k"},
    "an empty kind": {"kind": "", "name": "n"},
    "NUL in the name": {"kind": "k", "name": "a\0b"},
    "a name of 10,000 characters": {"kind": "k", "name": "x" * 10_000},
    "a field nobody knows": {"kind": "k", "name": "n", "sucess": True},
    "success as text": {"kind": "k", "name": "n", "success": "yes"},
    "a negative duration": {"kind": "k", "name": "n", "duration_ms": -1},
    "a duration beyond all bounds": {"kind": "k", "name": "n", "duration_ms": 1 << 70},
    "keys that are no list": {"kind": "k", "name": "n", "metadata_keys": "ab"},
    "NaN in the details": {"kind": "k", "name": "n", "details": [float("nan")]},
    "bytes in the details": TraceEvent(kind="k", name="n", details={"x": b"raw"}),
    "a record with a wrong type": TraceEvent(kind="k", name="n", exit_code=WRONG),
    "details that hold themselves": {"kind": "k", "name": "n", "details": ENDLESS},
    "a record whose details do": TraceEvent(kind="k", name="n", details=ENDLESS),
    "a run that is none": {"kind": "k", "name": "n", "run_id": ""},
}
BAD_REPORTS: dict[str, Any] = {
    "no dictionary": [],
    "no subject": {"checks": []},
    "NUL in the subject": {"subject": "a\0b"},
    "a subject of 10,000 characters": {"subject": "x" * 10_000},
    "a status nobody knows": {"subject": "x", "status": "fine"},
    "a check without id": {"subject": "x", "checks": [{"status": "passed"}]},
    "a check with a status nobody knows": {"subject": "x", "checks": [{"id": "c", "status": "?"}]},
    "a check with a field nobody knows": {"subject": "x", "checks": [{"id": "c", "stats": 1}]},
    "a record with a wrong type": Report(subject="x", checks=[WRONG]),
    "a record with bytes for text": Report(subject=RAW),
    "a record with nothing for a list": Report(subject="x", checks=NONE, residual_risks=NONE),
}
PLACES: dict[str, tuple[str, str, Any, str]] = {
    "a field that is missing": ("traces", "event.name", {"kind": "k"}, "missing"),
    "a number for text": ("traces", "event.name", {"kind": "k", "name": 3}, "text expected"),
    "text for a list": (
        "traces",
        "event.metadata_keys",
        {"kind": "k", "name": "n", "metadata_keys": "ab"},
        "a list expected, got text",
    ),
    "a number in a list": (
        "traces",
        "event.artifact_uris[1]",
        {"kind": "k", "name": "n", "artifact_uris": ["x", 3]},
        "text expected, got an integer",
    ),
    "text for a number": (
        "traces",
        "event.exit_code",
        TraceEvent(kind="k", name="n", exit_code=WRONG),
        "an integer or None expected, got text",
    ),
    "a field of a check": (
        "reports",
        "report.checks[1].id",
        {"subject": "x", "checks": [{"id": "c"}, {}]},
        "missing",
    ),
    "a status nobody knows": (
        "reports",
        "report.checks[0].status",
        {"subject": "x", "checks": [{"id": "c", "status": "maybe"}]},
        "'maybe' is none of passed, failed, needs_review, skipped",
    ),
    "no check at all": (
        "reports",
        "report.checks[0]",
        Report(subject="x", checks=[WRONG]),
        "a dictionary expected, got text",
    ),
}


class TestEvidenceInput:
    """Bad input is refused before anything is written."""

    @pytest.mark.parametrize("name", BAD_EVENTS)
    def test_an_event_that_is_none_is_refused(self, backend: Bed, name: str) -> None:
        self.refused(backend, "traces", "event", BAD_EVENTS[name])

    @pytest.mark.parametrize("name", BAD_REPORTS)
    def test_a_report_that_is_none_is_refused(self, backend: Bed, name: str) -> None:
        self.refused(backend, "reports", "report", BAD_REPORTS[name])

    def refused(self, backend: Bed, name: str, field: str, bad: Any) -> None:
        turn = backend.store.turns.begin("s")
        both = lists(backend, name)
        writes: list[Callable[[], object]] = [
            lambda: both.append("s", bad),
            lambda: both.save("s", [bad]),
            lambda: getattr(turn, name[:-1])(bad),
        ]
        for write in writes:
            with pytest.raises(InvalidValue) as caught:
                write()
            assert caught.value.field.startswith(field)
        assert both.load("s") is None

    @pytest.mark.parametrize("case", PLACES)
    def test_the_place_inside_is_named(self, backend: Bed, case: str) -> None:
        name, field, bad, reason = PLACES[case]
        with pytest.raises(InvalidValue) as caught:
            lists(backend, name).append("s", bad)
        assert caught.value.field == field
        assert caught.value.reason.startswith(reason)

    @BOTH
    def test_one_document_is_no_list(self, backend: Bed, name: str) -> None:
        both = lists(backend, name)
        for one in (SAVED[name][0], {"kind": "k", "name": "n"}, "text", b"text", None, 7):
            with pytest.raises(InvalidValue, match="a list expected, got") as caught:
                both.save("s", one)
            assert caught.value.field == {"traces": "events", "reports": "reports"}[name]
        assert both.load("s") is None

    def test_checks_as_dictionaries_count_in_a_record_too(self, backend: Bed) -> None:
        plain: Any = {"id": "c", "status": "failed"}
        backend.store.reports.save("s", [Report(subject="x", checks=[plain])])
        expected = Report(subject="x", checks=[Check(id="c", status="failed")])
        assert backend.store.reports.load("s") == [expected]
        assert expected.status == "failed"

    @BOTH
    @pytest.mark.parametrize("bad", ["", "x" * 256, "a\0b", 7])
    def test_a_session_must_have_an_id(self, backend: Bed, name: str, bad: Any) -> None:
        both = lists(backend, name)
        for call in (both.load, both.list, both.delete, both.append):
            with pytest.raises(InvalidValue, match="session"):
                call(bad)
