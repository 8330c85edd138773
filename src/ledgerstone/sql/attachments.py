"""Attachments: intents and stamps."""

from __future__ import annotations

from ledgerstone.commands.attachments import (
    ForgetAttachment,
    GetAttachment,
    ListUncommitted,
    RecordIntent,
)
from ledgerstone.records.attachments import Attachment
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
    return await tx.run("forget_attachment", *key) > 0


async def get_attachment(tx: Tx, query: GetAttachment) -> Attachment | None:
    """One row."""
    row = await tx.one("get_attachment", query.tenant, query.session, query.id)
    return None if row is None else Attachment(*row)


async def list_uncommitted(tx: Tx, query: ListUncommitted) -> list[Attachment]:
    """Intents that no commit used."""
    rows = await tx.all("list_uncommitted", query.tenant, query.cutoff_us)
    return [Attachment(*row) for row in rows]
