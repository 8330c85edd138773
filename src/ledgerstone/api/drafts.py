"""store.drafts: answers that were being streamed when their writer died."""

from __future__ import annotations

from typing import TypeAlias

from ledgerstone.api.handle import AsyncResource, Missing
from ledgerstone.commands.nodes import DropNotes, ListDrafts
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.records.drafts import DRAFT_PREFIX, DraftRecord

DraftList: TypeAlias = list[DraftRecord]


class AsyncDrafts(AsyncResource):
    """What `turn.draft` left behind; `turn.adopt` makes a message of it."""

    async def list(self, session: SessionRef, *, missing: Missing = "empty") -> DraftList:
        """Unfinished messages of a session, oldest first."""
        query = ListDrafts(tenant=self._tenant, session=checks.session_id(session))
        return await self._ask(query, missing)

    async def discard(self, draft: DraftRecord | str, *, session: SessionRef | None = None) -> bool:
        """Forget a draft; False when it was gone. An id alone needs the session as well."""
        removed = await self._write(
            DropNotes(
                tenant=self._tenant,
                session=checks.session_of(draft, session),
                node=checks.record_id(draft, "draft"),
                prefix=DRAFT_PREFIX,
            )
        )
        return removed > 0
