# Generated from api/reports.py by tools/make_sync.py: edit that, then run `make sync`.
"""store.reports: what was verified about results, and what that amounts to."""

from __future__ import annotations

from typing import TypeAlias

from ledgerstone.api_sync.evidence import Evidence
from ledgerstone.api_sync.handle import Handle
from ledgerstone.api_sync.pages import Pages
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.intake.evidence import REPORTS
from ledgerstone.records.verification import CHECK_STATUSES, Report, ReportEntry

EntryList: TypeAlias = list[ReportEntry]


class Reports(Evidence[Report]):
    """Reports of a session in order: Report, or dictionaries with its fields.

    A status that is not given follows from the checks and risks.
    """

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle, REPORTS)

    def iter(
        self,
        session: SessionRef,
        *,
        subject: str | None = None,
        status: str | None = None,
        after: int = 0,
    ) -> Pages[ReportEntry]:
        """Every report after place `after`, or of this subject or status, with its place."""
        id, first = checks.session_id(session), checks.whole(after, "after")
        if status is not None:
            checks.one_of(status, CHECK_STATUSES, "status")

        def fits(report: Report) -> bool:
            return subject in (None, report.subject) and status in (None, report.status)

        def fetch(last: ReportEntry | None) -> EntryList:
            found = self._fitting(id, first if last is None else last.n, fits)
            return [
                ReportEntry(n=row.n, report=report, created_us=row.created_us)
                for row, report in found
            ]

        return Pages(fetch, chunk=1)

    def list(
        self,
        session: SessionRef,
        *,
        subject: str | None = None,
        status: str | None = None,
        after: int = 0,
    ) -> EntryList:
        """The same, all at once."""
        found = self.iter(session, subject=subject, status=status, after=after)
        return [entry for entry in found]
