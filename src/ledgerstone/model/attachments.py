"""Attachments: an intent before the bytes, stamped by the commit that uses them."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands.attachments import (
    ForgetAttachment,
    GetAttachment,
    ListUncommitted,
    RecordIntent,
)
from ledgerstone.model.state import Tx
from ledgerstone.records.attachments import Attachment


def record_intent(tx: Tx, command: RecordIntent) -> Attachment:
    """Remember that bytes will come; the first intent stays."""
    key = (command.tenant, command.session, command.id)
    stored = tx.state.attachments.get(key)
    if stored is None:
        stored = Attachment(command.session, command.id, command.uri, tx.now_us)
        tx.state.attachments.insert(key, stored)
    return stored


def forget_attachment(tx: Tx, command: ForgetAttachment) -> bool:
    """Remove the row; False when there was none."""
    key = (command.tenant, command.session, command.id)
    if key not in tx.state.attachments:
        return False
    tx.state.attachments.delete(key)
    return True


def stamp(tx: Tx, tenant: str, session: str, attachment: str, moment_us: int) -> None:
    """Say that a commit uses the bytes; the first stamp stays, unknown ids are ignored."""
    stored = tx.state.attachments.get((tenant, session, attachment))
    if stored is not None and stored.committed_us is None:
        stamped = replace(stored, committed_us=moment_us)
        tx.state.attachments.update((tenant, session, attachment), stamped)


def list_uncommitted(tx: Tx, query: ListUncommitted) -> list[Attachment]:
    """Never committed and intended at or before the cutoff, oldest first."""
    rows = [
        row
        for _, row in tx.state.attachments.scan((query.tenant,))
        if row.committed_us is None and row.intent_us <= query.cutoff_us
    ]
    return sorted(rows, key=lambda row: (row.intent_us, row.session, row.id))


def get_attachment(tx: Tx, query: GetAttachment) -> Attachment | None:
    """One row, or None."""
    return tx.state.attachments.get((query.tenant, query.session, query.id))
