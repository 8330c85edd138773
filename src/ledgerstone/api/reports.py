"""store.reports: what was verified about results, and what that amounts to."""

from __future__ import annotations

from typing import TypeAlias

from ledgerstone.api.evidence import AsyncEvidence
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.pages import AsyncPages
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.intake.evidence import REPORTS
from ledgerstone.records.evidence import CHECK_STATUSES, Report, ReportEntry

EntryList: TypeAlias = list[ReportEntry]


class AsyncReports(AsyncEvidence[Report]):
    """Reports of a session in order: Report, or dictionaries with its fields.

    A status that is not given follows from the checks and risks.
    """

    def __init__(self, handle: AsyncHandle) -> None:
        super().__init__(handle, REPORTS)

    def iter(
        self,
        session: SessionRef,
        *,
        subject: str | None = None,
        status: str | None = None,
        after: int = 0,
    ) -> AsyncPages[ReportEntry]:
        """Every report after place `after`, or of this subject or status, with its place."""
        id, first = checks.session_id(session), checks.whole(after, "after")
        if status is not None:
            checks.one_of(status, CHECK_STATUSES, "status")

        def fits(report: Report) -> bool:
            return subject in (None, report.subject) and status in (None, report.status)

        async def fetch(last: ReportEntry | None) -> EntryList:
            found = await self._fitting(id, first if last is None else last.n, fits)
            return [
                ReportEntry(n=row.n, report=report, created_us=row.created_us)
                for row, report in found
            ]

        return AsyncPages(fetch, chunk=1)

    async def list(
        self,
        session: SessionRef,
        *,
        subject: str | None = None,
        status: str | None = None,
        after: int = 0,
    ) -> EntryList:
        """The same, all at once."""
        found = self.iter(session, subject=subject, status=status, after=after)
        return [entry async for entry in found]
