"""store.drafts: answers that were being streamed when their writer died."""

from __future__ import annotations

from typing import Any, TypeAlias

from ledgerstone.api.handle import AsyncHandle, AsyncResource, Missing
from ledgerstone.commands.nodes import AnnotateNodes, DropNotes, ListDrafts, NewNote
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.intake.content import Content
from ledgerstone.intake.drafts import DraftBuffer
from ledgerstone.intake.sessions import ensuring
from ledgerstone.records.drafts import DRAFT_PREFIX, DraftRecord
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.sessions import Session

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


class AsyncDraftNotes(DraftBuffer):
    """A draft that is written to the store as notes; when, the two kinds of `Draft` decide."""

    def __init__(
        self,
        handle: AsyncHandle,
        content: Content,
        lease: AnyLease | None,
        create: Session | None,
        fields: dict[str, Any],
    ) -> None:
        super().__init__(content, lease, fields)
        self._handle = handle
        self._create = create

    async def _begin(self) -> None:
        if self._create is not None:
            await self._handle.write(ensuring(self._create))
        await self._keep(self._start())

    async def _keep(self, note: NewNote) -> None:
        await self._handle.write(
            AnnotateNodes(tenant=self._handle.tenant, session=self._content.session, notes=(note,))
        )
