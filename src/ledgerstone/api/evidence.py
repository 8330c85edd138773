"""store.traces and store.reports: what an agent did besides talking, and what was verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from ledgerstone import ids
from ledgerstone.api.handle import AsyncHandle, AsyncResource
from ledgerstone.api.pages import CHUNK, AsyncPages
from ledgerstone.commands import evidence as commands
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.evidence import REPORTS, TRACES, Form
from ledgerstone.records.evidence import CHECK_STATUSES, Report, ReportEntry, TraceEntry, TraceEvent

T = TypeVar("T", bound=msgspec.Struct)
E = TypeVar("E", TraceEntry, ReportEntry)
TraceEntries: TypeAlias = list[TraceEntry]
ReportEntries: TypeAlias = list[ReportEntry]


class AsyncEvidence(AsyncResource, Generic[T]):
    """What both lists can do. The session need not exist; one that is deleted takes no writes."""

    def __init__(self, handle: AsyncHandle, form: Form[T]) -> None:
        super().__init__(handle)
        self._form = form

    async def append(
        self, session: SessionRef, *documents: T | Mapping[str, Any], key: str | None = None
    ) -> int:
        """Add at the end; answers how many there are now. SessionDeleted.

        With a `key` the same append may be repeated: as long as it was the last one, nothing is
        added twice.
        """
        return await self._write(
            commands.AppendEvidence(
                tenant=self._tenant,
                session=checks.session_id(session),
                kind=self._form.kind,
                bodies=self._form.bodies(documents),
                key=None if key is None else ids.check_id(key, "key"),
            )
        )

    async def save(self, session: SessionRef, documents: Iterable[T | Mapping[str, Any]]) -> int:
        """Make the list exactly these, all or nothing; answers how many. SessionDeleted."""
        return await self._write(
            commands.SaveEvidence(
                tenant=self._tenant,
                session=checks.session_id(session),
                kind=self._form.kind,
                bodies=self._form.bodies(documents),
            )
        )

    async def load(self, session: SessionRef) -> list[T] | None:
        """The whole list as it was saved; None when there never was one."""
        name = checks.session_id(session)
        rows = await self._rows(name, 0, None)
        return None if rows is None else [self._form.read(name, row) for row in rows]

    async def delete(self, session: SessionRef) -> int:
        """Remove the list, as if none had been saved; how many went. SessionDeleted."""
        return await self._write(
            commands.DeleteEvidence(
                tenant=self._tenant, session=checks.session_id(session), kind=self._form.kind
            )
        )

    def _iter(
        self,
        session: SessionRef,
        after: int,
        fits: Callable[[T], bool],
        to_entry: Callable[[commands.EvidenceRow, T], E],
    ) -> AsyncPages[E]:
        """Entries after a place that fit, in order."""
        id, first = checks.session_id(session), checks.whole(after, "after")

        async def fetch(last: E | None) -> list[E]:
            """The next ones, from the first chunk that has any; none at the end."""
            place = first if last is None else last.n
            while rows := await self._rows(id, place):
                pairs = [(row, self._form.read(id, row)) for row in rows]
                found = [to_entry(row, document) for row, document in pairs if fits(document)]
                if found:
                    return found
                place = rows[-1].n
            return []

        return AsyncPages(fetch, chunk=1)

    async def _rows(
        self, session: str, after: int, limit: int | None = CHUNK
    ) -> list[commands.EvidenceRow] | None:
        return await self._ask(
            commands.LoadEvidence(
                tenant=self._tenant, session=session, kind=self._form.kind, after=after, limit=limit
            )
        )


class AsyncTraces(AsyncEvidence[TraceEvent]):
    """Events of a session in order: TraceEvent, or dictionaries with its fields.

    Keys of metadata are kept sorted, uris of artifacts sorted and once each.
    """

    def __init__(self, handle: AsyncHandle) -> None:
        super().__init__(handle, TRACES)

    def iter(
        self,
        session: SessionRef,
        *,
        kind: str | None = None,
        name: str | None = None,
        run_id: IdRef | None = None,
        after: int = 0,
    ) -> AsyncPages[TraceEntry]:
        """Every event after place `after`, or of this kind, name or run, with its place."""
        run = checks.maybe_id(run_id, "run_id")

        def fits(event: TraceEvent) -> bool:
            same = kind in (None, event.kind) and name in (None, event.name)
            return same and run in (None, event.run_id)

        def to_entry(row: commands.EvidenceRow, event: TraceEvent) -> TraceEntry:
            return TraceEntry(n=row.n, event=event, created_us=row.created_us)

        return self._iter(session, after, fits, to_entry)

    async def list(
        self,
        session: SessionRef,
        *,
        kind: str | None = None,
        name: str | None = None,
        run_id: IdRef | None = None,
        after: int = 0,
    ) -> TraceEntries:
        """The same, all at once."""
        found = self.iter(session, kind=kind, name=name, run_id=run_id, after=after)
        return [entry async for entry in found]


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
        if status is not None:
            checks.one_of(status, CHECK_STATUSES, "status")

        def fits(report: Report) -> bool:
            return subject in (None, report.subject) and status in (None, report.status)

        def to_entry(row: commands.EvidenceRow, report: Report) -> ReportEntry:
            return ReportEntry(n=row.n, report=report, created_us=row.created_us)

        return self._iter(session, after, fits, to_entry)

    async def list(
        self,
        session: SessionRef,
        *,
        subject: str | None = None,
        status: str | None = None,
        after: int = 0,
    ) -> ReportEntries:
        """The same, all at once."""
        found = self.iter(session, subject=subject, status=status, after=after)
        return [entry async for entry in found]
