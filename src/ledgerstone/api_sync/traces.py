# Generated from api/traces.py by tools/make_sync.py: edit that, then run `make sync`.
"""store.traces: what an agent did besides talking, event by event."""

from __future__ import annotations

from typing import TypeAlias

from ledgerstone.api_sync.evidence import Evidence
from ledgerstone.api_sync.handle import Handle
from ledgerstone.api_sync.pages import Pages
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.evidence import TRACES
from ledgerstone.records.traces import TraceEntry, TraceEvent

EntryList: TypeAlias = list[TraceEntry]


class Traces(Evidence[TraceEvent]):
    """Events of a session in order: TraceEvent, or dictionaries with its fields.

    Keys of metadata are kept sorted, uris of artifacts sorted and once each.
    """

    def __init__(self, handle: Handle) -> None:
        super().__init__(handle, TRACES)

    def iter(
        self,
        session: SessionRef,
        *,
        kind: str | None = None,
        name: str | None = None,
        run_id: IdRef | None = None,
        after: int = 0,
    ) -> Pages[TraceEntry]:
        """Every event after place `after`, or of this kind, name or run, with its place."""
        id, run = checks.session_id(session), checks.maybe_id(run_id, "run_id")
        first = checks.whole(after, "after")

        def fits(event: TraceEvent) -> bool:
            same = kind in (None, event.kind) and name in (None, event.name)
            return same and run in (None, event.run_id)

        def fetch(last: TraceEntry | None) -> EntryList:
            found = self._fitting(id, first if last is None else last.n, fits)
            return [
                TraceEntry(n=row.n, event=event, created_us=row.created_us) for row, event in found
            ]

        return Pages(fetch, chunk=1)

    def list(
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
        return [entry for entry in found]
