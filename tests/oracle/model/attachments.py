"""Attachments: an intent before the bytes, stamped by the commit that uses them."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands.blobs import (
    ForgetAttachment,
    GetAttachment,
    ListAttachments,
    ListUncommitted,
    RecordIntent,
)
from ledgerstone.records.blobs import Attachment
from tests.oracle.model.blobs import need_blob
from tests.oracle.model.commits import Commit
from tests.oracle.model.state import State, Tx


def record_intent(tx: Tx, command: RecordIntent) -> Attachment:
    """Remember that bytes will come; the first intent stays."""
    key = (command.tenant, command.session, command.id)
    stored = tx.state.attachments.get(key)
    if stored is None:
        stored = Attachment(command.session, command.id, command.uri, tx.now_us)
        add(tx, command.tenant, stored)
    return stored


def forget_attachment(tx: Tx, command: ForgetAttachment) -> bool:
    """Remove the row; False when there was none."""
    key = (command.tenant, command.session, command.id)
    stored = tx.state.attachments.get(key)
    if stored is None:
        return False
    if command.before_us is not None and (
        stored.committed_us is not None or stored.intent_us > command.before_us
    ):
        return False
    remove(tx, key)
    return True


def add(tx: Tx, tenant: str, row: Attachment) -> None:
    """A new row, and the mark that its bytes are needed."""
    tx.state.attachments.insert((tenant, row.session, row.id), row)
    tx.state.blob_uses.insert((tenant, row.id, "attachments", row.session), None)


def remove(tx: Tx, key: tuple[str, str, str]) -> None:
    """A row and its mark."""
    tenant, session, id = key
    tx.state.attachments.delete(key)
    tx.state.blob_uses.delete((tenant, id, "attachments", session))


def rebuild(state: State) -> None:
    """The marks follow from the rows."""
    for (tenant, session, id), _ in state.attachments.scan():
        state.blob_uses.place((tenant, id, "attachments", session), None)


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


def list_attachments(tx: Tx, query: ListAttachments) -> list[Attachment]:
    """All of a session, by age."""
    rows = [row for _, row in tx.state.attachments.scan((query.tenant, query.session))]
    return sorted(rows, key=lambda row: (row.intent_us, row.id))


def attach_blobs(commit: Commit) -> None:
    """Blobs that messages name belong to the session from here on; BlobNotFound."""
    tx, command, moment_us = commit.tx, commit.command, commit.moment_us
    for ref in command.blobs:
        need_blob(tx, command.tenant, ref)
        if (command.tenant, command.session, ref) not in tx.state.attachments:
            row = Attachment(command.session, ref, f"blob:{ref}", moment_us, moment_us)
            add(tx, command.tenant, row)
        stamp(tx, command.tenant, command.session, ref, moment_us)
    commit.effects["blobs"] = list(command.blobs)
