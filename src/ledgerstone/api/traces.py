"""store.traces: what an agent did besides talking, event by event."""

from __future__ import annotations

from typing import TypeAlias

from ledgerstone.api.evidence import AsyncEvidence
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.pages import AsyncPages
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.evidence import TRACES
from ledgerstone.records.evidence import TraceEntry, TraceEvent

EntryList: TypeAlias = list[TraceEntry]


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
        id, run = checks.session_id(session), checks.maybe_id(run_id, "run_id")
        first = checks.whole(after, "after")

        def fits(event: TraceEvent) -> bool:
            same = kind in (None, event.kind) and name in (None, event.name)
            return same and run in (None, event.run_id)

        async def fetch(last: TraceEntry | None) -> EntryList:
            found = await self._fitting(id, first if last is None else last.n, fits)
            return [
                TraceEntry(n=row.n, event=event, created_us=row.created_us) for row, event in found
            ]

        return AsyncPages(fetch, chunk=1)

    async def list(
        self,
        session: SessionRef,
        *,
        kind: str | None = None,
        name: str | None = None,
        run_id: IdRef | None = None,
        after: int = 0,
    ) -> EntryList:
        """The same, all at once."""
        found = self.iter(session, kind=kind, name=name, run_id=run_id, after=after)
        return [entry async for entry in found]
