"""What a commit keeps besides its messages: bytes, evidence and memories."""

from __future__ import annotations

from ledgerstone.sql.artifacts import put_in_commit
from ledgerstone.sql.attachments import attach_blobs
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.evidence import append_in_commit
from ledgerstone.sql.memories import remember_in_commit
from ledgerstone.sql.tx import Tx


async def keep(tx: Tx, commit: Commit) -> None:
    """In the order that lets each refer to the one before."""
    command = commit.command
    if command.blobs:
        await attach_blobs(tx, commit)
    if command.artifacts:
        await put_in_commit(tx, commit)
    if command.traces or command.reports:
        await append_in_commit(tx, commit)
    if command.memories:
        await remember_in_commit(tx, commit)
