# Generated from api/attachments.py by tools/make_sync.py: edit that, then run `make sync`.
"""store.attachments: an intent before the bytes, stamped by the turn that uses them."""

from __future__ import annotations

from ledgerstone.api_sync.handle import Handle
from ledgerstone.commands import attachments as commands
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef, Time
from ledgerstone.records.attachments import Attachment


class Attachments:
    """Two-phase references to bytes that live elsewhere."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def intent(self, session: SessionRef, id: IdRef, uri: str) -> Attachment:
        """Remember that bytes will come; repeated, the earliest intent and any stamp stay."""
        return self._handle.write(
            commands.RecordIntent(
                tenant=self._handle.tenant,
                session=checks.session_id(session),
                id=checks.record_id(id, "id"),
                uri=checks.text(uri, "uri"),
            )
        )

    def get(self, session: SessionRef, id: IdRef) -> Attachment | None:
        """One attachment, or None."""
        return self._handle.ask(
            commands.GetAttachment(
                tenant=self._handle.tenant,
                session=checks.session_id(session),
                id=checks.record_id(id, "id"),
            )
        )

    def uncommitted(self, *, before: Time) -> list[Attachment]:
        """Never used by a turn and intended at or before this time, oldest first."""
        return self._handle.ask(
            commands.ListUncommitted(
                tenant=self._handle.tenant, cutoff_us=checks.micros(before, "before")
            )
        )

    def forget(self, session: SessionRef, id: IdRef) -> bool:
        """Remove the row; False when there was none."""
        return self._handle.write(
            commands.ForgetAttachment(
                tenant=self._handle.tenant,
                session=checks.session_id(session),
                id=checks.record_id(id, "id"),
            )
        )
