"""What a turn keeps besides its messages: bytes, evidence and memories."""

from __future__ import annotations

from typing import Any, Unpack

from ledgerstone.intake.artifacts import QUOTA, Fields, add_artifact
from ledgerstone.intake.blobs import Ref
from ledgerstone.intake.checks import IdRef
from ledgerstone.intake.content import Content, id_list
from ledgerstone.intake.evidence import AnyEvent, AnyReport, add_report, add_trace
from ledgerstone.intake.memories import new_memory
from ledgerstone.intake.vectors import Vector
from ledgerstone.records.artifacts import Quota
from ledgerstone.records.evidence import Report, TraceEvent
from ledgerstone.records.memories import Namespace


class Keeping:
    """The part of a turn that both faces share as it is: it collects, and waits for nothing."""

    _content: Content

    def attach(self, *ids: IdRef) -> None:
        """Stamp attachments of this session as used; unknown ones are ignored."""
        self._content.extend("attach", id_list(ids, "attachment"))

    def artifact(
        self, name: str, blob: Ref, *, quota: Quota | None = QUOTA, **fields: Unpack[Fields]
    ) -> str:
        """Keep a stored blob as the next version of the name, in this session; answers its id.

        Keywords as of `artifacts.put`; errors at the commit: BlobNotFound, QuotaExceeded.
        """
        return add_artifact(self._content, name, blob, quota, fields)

    def trace(self, event: AnyEvent) -> TraceEvent:
        """Add to the session's traces with the commit; an event of no run is of this one."""
        return add_trace(self._content, event)

    def report(self, report: AnyReport) -> Report:
        """Add to the session's verification reports with the commit."""
        return add_report(self._content, report)

    def remember(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        *,
        ttl_s: float | None = None,
        vector: Vector | None = None,
        model: str = "",
    ) -> None:
        """A memory that is there if and only if this turn is committed; as `memories.put`."""
        made = new_memory(namespace, key, value, ttl_s=ttl_s, vector=vector, model=model)
        self._content.extend("memories", (made,))
