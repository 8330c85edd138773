"""Attachments: intents and stamps."""

from __future__ import annotations

from ledgerstone.codec import is_sha256
from ledgerstone.commands.attachments import (
    ForgetAttachment,
    GetAttachment,
    ListAttachments,
    ListUncommitted,
    RecordIntent,
)
from ledgerstone.errors import BlobNotFound
from ledgerstone.records.attachments import Attachment
from ledgerstone.sql.blobs import need_blob
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.tx import Tx


async def record_intent(tx: Tx, command: RecordIntent) -> Attachment:
    """Keep the earliest intent."""
    await tx.run(
        "insert_intent", command.tenant, command.session, command.id, command.uri, tx.now_us
    )
    row = await tx.one("get_attachment", command.tenant, command.session, command.id)
    assert row is not None
    return Attachment(*row)


async def forget_attachment(tx: Tx, command: ForgetAttachment) -> bool:
    """Remove the row."""
    key = (command.tenant, command.session, command.id)
    if command.before_us is not None:
        return await tx.run("forget_intent", *key, command.before_us) > 0
    return await tx.run("forget_attachment", *key) > 0


async def get_attachment(tx: Tx, query: GetAttachment) -> Attachment | None:
    """One row."""
    row = await tx.one("get_attachment", query.tenant, query.session, query.id)
    return None if row is None else Attachment(*row)


async def list_uncommitted(tx: Tx, query: ListUncommitted) -> list[Attachment]:
    """Intents that no commit used."""
    rows = await tx.all("list_uncommitted", query.tenant, query.cutoff_us)
    return [Attachment(*row) for row in rows]


async def list_attachments(tx: Tx, query: ListAttachments) -> list[Attachment]:
    """All of a session."""
    rows = await tx.all("list_attachments", query.tenant, query.session)
    return [Attachment(*row) for row in rows]


async def attach_blobs(tx: Tx, commit: Commit) -> None:
    """Blobs that messages name belong to the session from here on; BlobNotFound."""
    command, moment_us = commit.command, commit.moment_us
    for ref in command.blobs:
        if not is_sha256(ref):  # A database may not be able to compare it.
            raise BlobNotFound(ref)
        await need_blob(tx, command.tenant, ref)
        key = (command.tenant, command.session, ref)
        await tx.run("insert_intent", *key, f"blob:{ref}", moment_us)
        await tx.run("stamp_attachment", *key, moment_us)
    commit.effects["blobs"] = list(command.blobs)
