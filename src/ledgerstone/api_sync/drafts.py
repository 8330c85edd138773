# Generated from api/drafts.py by tools/make_sync.py: edit that, then run `make sync`.
"""store.drafts: answers that were being streamed when their writer died."""

from __future__ import annotations

from typing import TypeAlias

from ledgerstone.api_sync.handle import Handle, Missing
from ledgerstone.commands.nodes import DropNotes, ListDrafts
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.records.drafts import DRAFT_PREFIX, DraftRecord

DraftList: TypeAlias = list[DraftRecord]


class Drafts:
    """What `turn.draft` left behind; `turn.adopt` makes a message of it."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def list(self, session: SessionRef, *, missing: Missing = "empty") -> DraftList:
        """Unfinished messages of a session, oldest first."""
        query = ListDrafts(tenant=self._handle.tenant, session=checks.session_id(session))
        return self._handle.ask(query, missing)

    def discard(self, draft: DraftRecord | str, *, session: SessionRef | None = None) -> bool:
        """Forget a draft; False when it was gone. An id alone needs the session as well."""
        removed = self._handle.write(
            DropNotes(
                tenant=self._handle.tenant,
                session=checks.session_of(draft, session),
                node=checks.record_id(draft, "draft"),
                prefix=DRAFT_PREFIX,
            )
        )
        return removed > 0
