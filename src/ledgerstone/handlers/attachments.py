"""Attachments: an intent before the bytes, stamped by the commit that uses them."""

from __future__ import annotations

from itertools import takewhile, zip_longest
from operator import attrgetter

from msgspec.structs import replace

from ledgerstone.codec import is_sha256
from ledgerstone.commands.attachments import (
    CommitAttachments,
    ForgetAttachment,
    GetAttachment,
    ListAttachments,
    ListUncommitted,
    RecordIntent,
)
from ledgerstone.errors import BlobNotFound
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.registry import handles
from ledgerstone.records.attachments import Attachment
from ledgerstone.tables.blobs import ATTACHMENTS, ATTACHMENTS_OPEN, BLOBS, AttachmentRow
from ledgerstone.tables.transaction import Tx


@handles(RecordIntent)
async def record_intent(tx: Tx, command: RecordIntent) -> Attachment:
    """Remember that bytes will come; the first intent stays."""
    key = (command.tenant, command.session, command.id)
    row = await tx.get(ATTACHMENTS, *key)
    if row is None:
        row = AttachmentRow(*key, command.uri, tx.now_us)
        tx.put(ATTACHMENTS, row)
    return _attachment(row)


@handles(CommitAttachments)
async def commit_attachments(tx: Tx, command: CommitAttachments) -> list[Attachment]:
    """Stamp those that are known."""
    rows = await stamp(tx, command.tenant, command.session, command.ids, tx.now_us)
    return [_attachment(row) for row in rows]


async def stamp(
    tx: Tx, tenant: str, session: str, ids: tuple[str, ...], moment_us: int
) -> list[AttachmentRow]:
    """The known ones of these attachments, all used now: who used one first has stamped it."""
    found = []
    for id in dict.fromkeys(ids):
        row = await tx.get(ATTACHMENTS, tenant, session, id)
        if row is not None and row.committed_us is None:
            row = replace(row, committed_us=moment_us)
            tx.put(ATTACHMENTS, row)
        if row is not None:
            found.append(row)
    return found


@handles(ForgetAttachment)
async def forget_attachment(tx: Tx, command: ForgetAttachment) -> bool:
    """Remove the row; False when there was none."""
    key = (command.tenant, command.session, command.id)
    row = await tx.get(ATTACHMENTS, *key)
    if row is None:
        return False
    before_us = command.before_us
    if before_us is not None and (row.committed_us is not None or row.intent_us > before_us):
        return False
    tx.delete(ATTACHMENTS, *key)
    return True


@handles(GetAttachment)
async def get_attachment(tx: Tx, query: GetAttachment) -> Attachment | None:
    """One row."""
    row = await tx.get(ATTACHMENTS, query.tenant, query.session, query.id)
    return None if row is None else _attachment(row)


@handles(ListUncommitted)
async def list_uncommitted(tx: Tx, query: ListUncommitted) -> list[Attachment]:
    """Intents that no commit used, oldest first."""
    rows = await tx.scan(ATTACHMENTS_OPEN, query.tenant, before=(query.cutoff_us + 1,))
    return [_attachment(row) for row in rows]


@handles(ListAttachments)
async def list_attachments(tx: Tx, query: ListAttachments) -> list[Attachment]:
    """All of a session, by age."""
    rows = await tx.scan(ATTACHMENTS.primary, query.tenant, query.session)
    return [_attachment(row) for row in sorted(rows, key=attrgetter("intent_us", "id"))]


async def attach_blobs(tx: Tx, commit: Commit) -> None:
    """Blobs that messages name belong to the session from here on; BlobNotFound."""
    command, moment_us = commit.command, commit.moment_us
    # A database may not be able to compare what is no name of content.
    names = [(command.tenant, ref) for ref in takewhile(is_sha256, command.blobs)]
    for ref, blob in zip_longest(command.blobs, await tx.get_many(BLOBS, names)):
        if blob is None:
            raise BlobNotFound(ref)
    keys = [(command.tenant, command.session, ref) for ref in command.blobs]
    for key, row in zip(keys, await tx.get_many(ATTACHMENTS, keys), strict=True):
        intent = row or AttachmentRow(*key, f"blob:{key[2]}", moment_us)
        if intent.committed_us is None:
            tx.put(ATTACHMENTS, replace(intent, committed_us=moment_us))
    commit.effects["blobs"] = list(command.blobs)


def _attachment(row: AttachmentRow) -> Attachment:
    return Attachment(row.session, row.id, row.uri, row.intent_us, row.committed_us)
