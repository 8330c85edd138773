"""Traces and reports: what an agent did besides talking, and what was checked about a result."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, cast, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import force_setattr

TRACE_SCHEMA = "ledgerstone.trace_event.v1"


REPORT_SCHEMA = "ledgerstone.verification_report.v1"
CheckStatus = Literal["passed", "failed", "needs_review", "skipped"]
CHECK_STATUSES: tuple[CheckStatus, ...] = get_args(CheckStatus)


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


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was, or should have been, looked at."""

    id: str
    kind: str = ""
    description: str = ""
    status: CheckStatus = "skipped"
    required: bool = False
    suggested_tools: list[str] = []
    evidence_uris: list[str] = []
    residual_risk: str | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A report about one subject; `status`, when not given, follows from its checks and risks."""

    subject: str
    status: CheckStatus = cast(Any, UNSET)
    checks: list[Check] = []
    residual_risks: list[str] = []
    effect_digest: str | None = None
    schema: str = REPORT_SCHEMA

    def __post_init__(self) -> None:
        if _derivable(self):
            force_setattr(self, "status", derive_status(self.checks, self.residual_risks))


class ReportEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A report at its place in the session's list, counted from 1."""

    n: int
    report: Report
    created_us: int


def _derivable(report: Any) -> bool:
    """Whether the status is left to us; not with wrong types, which nothing has looked at yet.

    Storing such a report refuses it, or makes its checks records and comes here again.
    """
    lists = isinstance(report.checks, list) and isinstance(report.residual_risks, list)
    return report.status is UNSET and lists and all(isinstance(one, Check) for one in report.checks)


def derive_status(checks: Iterable[Check], residual_risks: Iterable[str] = ()) -> CheckStatus:
    """failed beats needs_review beats passed; a report without checks is skipped."""
    found = list(checks)
    if any(check.status == "failed" for check in found):
        return "failed"
    open_checks = any(
        check.required and check.status in ("needs_review", "skipped") for check in found
    )
    risky = any(check.residual_risk for check in found) or any(residual_risks)
    if open_checks or risky:
        return "needs_review"
    return "passed" if found else "skipped"
