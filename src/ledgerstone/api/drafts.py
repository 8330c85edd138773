"""store.drafts: answers that were being streamed when their writer died."""

from __future__ import annotations

from typing import TypeAlias

from ledgerstone.api.handle import AsyncHandle, Missing
from ledgerstone.commands.nodes import DropNotes, ListDrafts
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.records.drafts import DRAFT_PREFIX, DraftRecord

DraftList: TypeAlias = list[DraftRecord]


class AsyncDrafts:
    """What `turn.draft` left behind; `turn.adopt` makes a message of it."""

    def __init__(self, handle: AsyncHandle) -> None:
        self._handle = handle

    async def list(self, session: SessionRef, *, missing: Missing = "empty") -> DraftList:
        """Unfinished messages of a session, oldest first."""
        query = ListDrafts(tenant=self._handle.tenant, session=checks.session_id(session))
        return await self._handle.ask(query, missing)

    async def discard(self, draft: DraftRecord | str, *, session: SessionRef | None = None) -> bool:
        """Forget a draft; False when it was gone. An id alone needs the session as well."""
        removed = await self._handle.write(
            DropNotes(
                tenant=self._handle.tenant,
                session=checks.session_of(draft, session),
                node=checks.record_id(draft, "draft"),
                prefix=DRAFT_PREFIX,
            )
        )
        return removed > 0
