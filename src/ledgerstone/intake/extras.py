"""What a turn carries besides its messages: bytes, evidence and memories."""

from __future__ import annotations

from typing import Any, Unpack

from msgspec.structs import replace

from ledgerstone.intake.artifacts import QUOTA, Fields, check_fields, new_artifact, quota_of
from ledgerstone.intake.blobs import Ref
from ledgerstone.intake.checks import IdRef
from ledgerstone.intake.content import Content, id_list
from ledgerstone.intake.embeddings import Vector
from ledgerstone.intake.evidence import REPORTS, TRACES, AnyEvent, AnyReport
from ledgerstone.intake.memories import new_memory
from ledgerstone.records.artifacts import Quota
from ledgerstone.records.memories import Namespace
from ledgerstone.records.traces import TraceEvent
from ledgerstone.records.verification import Report


class Extras:
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
        content, quota = self._content, quota_of(quota)
        new = new_artifact(name, blob, check_fields(name, fields), content.draw()[0])
        content.extend("artifacts", (new,))
        content.more["quota"] = quota
        return new.id

    def trace(self, event: AnyEvent) -> TraceEvent:
        """Add to the session's traces with the commit; an event of no run is of this one."""
        made = TRACES.take(event)
        if made.run_id is None and self._content.run_id is not None:
            made = replace(made, run_id=self._content.run_id)
        self._content.extend("traces", (TRACES.encode(made),))
        return made

    def report(self, report: AnyReport) -> Report:
        """Add to the session's verification reports with the commit."""
        made = REPORTS.take(report)
        self._content.extend("reports", (REPORTS.encode(made),))
        return made

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
