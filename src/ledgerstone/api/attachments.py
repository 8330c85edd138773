"""store.attachments: an intent before the bytes, stamped by the turn that uses them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from ledgerstone.api.blob_writing_async import Data, measure
from ledgerstone.api.blobs import put_blob, upload
from ledgerstone.api.handle import AsyncHandle, AsyncResource
from ledgerstone.commands import blobs as commands
from ledgerstone.commands.blobs import TouchBlob
from ledgerstone.errors import BlobNotFound, InvalidValue
from ledgerstone.intake import blobs as intake
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef, Time
from ledgerstone.intake.content import id_list
from ledgerstone.records.blobs import Attachment

AttachmentList: TypeAlias = list[Attachment]
INTENTS_KEPT_S = 86_400
"""Intents that no turn used are kept this long by default."""


class AsyncAttachments(AsyncResource):
    """Two-phase references to bytes, of this store or elsewhere."""

    async def intent(self, session: SessionRef, id: IdRef, uri: str) -> Attachment:
        """Remember that bytes will come; repeated, the earliest intent and any stamp stay."""
        return await self._write(
            commands.RecordIntent(
                tenant=self._tenant,
                session=checks.session_id(session),
                id=checks.record_id(id, "id"),
                uri=checks.text(uri, "uri"),
            )
        )

    async def commit(self, session: SessionRef, ids: Iterable[IdRef]) -> AttachmentList:
        """Stamp attachments as used, outside of a turn, so that no sweep forgets them.

        The first stamp of each stays. Answers those that are known; unknown ones are left out.
        """
        command = commands.CommitAttachments(
            tenant=self._tenant, session=checks.session_id(session), ids=tuple(id_list(ids, "id"))
        )
        return await self._write(command)

    async def put(
        self,
        session: SessionRef,
        data: Data,
        *,
        media_type: str | None = None,
        id: str | None = None,
    ) -> Attachment:
        """Keep bytes for a session that a turn will use: `turn.attach(attachment)`, or a part
        whose `blob` is its id.

        Its id is the SHA-256 of the bytes; a given one is checked. Until a turn uses it, `sweep`
        may forget it, and then `admin.gc` the bytes. Errors as of `blobs.put`.
        """
        name, media = checks.session_id(session), intake.media_type(media_type)
        known = await measure(data)
        if id is not None and intake.known_ref(id, "id") != (known or id):
            raise InvalidValue("id", f"the bytes have another SHA-256: {known}")
        if known is not None:
            made = await self.intent(name, known, f"blob:{known}")
            await put_blob(self._handle, data, media_type=media, expected=known)
            return made
        blob = await upload(self._handle, data, media_type=media, size_bytes=None, expected=id)
        made = await self.intent(name, blob.ref, f"blob:{blob.ref}")
        # Between the two a collector that spares nothing may have come by.
        touch = TouchBlob(tenant=self._tenant, ref=blob.ref)
        if await self._write(touch) is None:
            raise BlobNotFound(blob.ref)
        return made

    async def list(self, session: SessionRef) -> AttachmentList:
        """All of a session, oldest first."""
        return await self._ask(
            commands.ListAttachments(tenant=self._tenant, session=checks.session_id(session))
        )

    async def get(self, session: SessionRef, id: IdRef) -> Attachment | None:
        """One attachment, or None."""
        return await self._ask(
            commands.GetAttachment(
                tenant=self._tenant,
                session=checks.session_id(session),
                id=checks.record_id(id, "id"),
            )
        )

    async def uncommitted(self, *, before: Time) -> AttachmentList:
        """Never used by a turn and intended at or before this time, oldest first."""
        return await self._ask(
            commands.ListUncommitted(tenant=self._tenant, cutoff_us=checks.micros(before, "before"))
        )

    async def forget(self, session: SessionRef, id: IdRef) -> bool:
        """Remove the row; False when there was none."""
        return await self._write(
            commands.ForgetAttachment(
                tenant=self._tenant,
                session=checks.session_id(session),
                id=checks.record_id(id, "id"),
            )
        )

    async def sweep(self, *, older_than_s: float = INTENTS_KEPT_S) -> int:
        """Forget intents so old that no turn used; how many."""
        age_us = checks.span_us(older_than_s, "older_than_s")
        return await sweep_intents(self._handle, self._handle.clock.now_us() - age_us)


async def sweep_intents(handle: AsyncHandle, cutoff_us: int) -> int:
    """Forget intents from before the cutoff, each only if still no turn used it."""
    tenant, swept = handle.tenant, 0
    query = commands.ListUncommitted(tenant=tenant, cutoff_us=cutoff_us)
    for found in await handle.ask(query):
        swept += await handle.write(
            commands.ForgetAttachment(
                tenant=tenant, session=found.session, id=found.id, before_us=cutoff_us
            )
        )
    return swept
