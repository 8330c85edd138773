"""What a commit stores besides its messages: documents, bytes, evidence and memories."""

from __future__ import annotations

from typing import Any

from ledgerstone.codec import encode_json, sha256
from ledgerstone.commands.nodes import NewValue
from ledgerstone.handlers.artifacts import put_in_commit
from ledgerstone.handlers.blobs import attach_blobs, stamp
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.evidence import append_in_commit
from ledgerstone.handlers.executions import finish_in_commit
from ledgerstone.handlers.memories import remember_in_commit
from ledgerstone.handlers.notes import drop_notes_of, put_values, write_notes
from ledgerstone.handlers.tickets import open_tickets
from ledgerstone.handlers.work import enqueue_in_commit
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.rules.bodies import read_object
from ledgerstone.tables.sessions import DOCUMENTS, DocumentRow
from ledgerstone.tables.transaction import Tx


async def carry_more(tx: Tx, commit: Commit) -> None:
    """What travels with the nodes of few."""
    command, head = commit.command, commit.head
    if command.values:
        await put_values(tx, head, command.values)
    if command.notes:
        await write_notes(tx, head, command.notes, commit.moment_us, "replace_note")
    if command.kept_notes:
        await write_notes(tx, head, command.kept_notes, commit.moment_us, "keep_note")
    await put_documents(tx, commit)
    for draft in command.drop_drafts:
        await drop_notes_of(tx, head, draft, DRAFT_PREFIX)
    if command.attach:
        await stamp(tx, command.tenant, command.session, command.attach, commit.moment_us)
        commit.effects["attach"] = list(command.attach)
    if command.tickets:
        await open_tickets(tx, commit)
    if command.executions:
        await finish_in_commit(tx, commit)
    if command.enqueue:
        await enqueue_in_commit(tx, commit)
    await store_extras(tx, commit)


async def patch_state(tx: Tx, commit: Commit, patch: dict[str, Any]) -> None:
    """Merge a patch into the session's state; what it sets to None is gone."""
    number = commit.head.number
    row = await tx.get(DOCUMENTS, number, "state")
    state = read_object(None if row is None else row.body, "documents", f"{number}", "state")
    state |= patch
    left = {key: value for key, value in state.items() if value is not None}
    tx.put(DOCUMENTS, DocumentRow(number, "state", encode_json(left, "state")))
    if patch:
        commit.effects["state"] = patch


async def put_documents(tx: Tx, commit: Commit) -> None:
    """Replace the config, the frames and the checkpoint that a commit brings."""
    command, head, digests = commit.command, commit.head, {}
    for name, body in (("config", command.config), ("frames", command.frames)):
        if body is not None:
            tx.put(DOCUMENTS, DocumentRow(head.number, name, body))
            digests[name] = sha256(body)
    if digests:
        commit.effects["documents"] = digests
    checkpoint = command.checkpoint
    if checkpoint is not None:
        tx.put(DOCUMENTS, DocumentRow(head.number, "checkpoint", checkpoint.data))
        await put_values(tx, head, [NewValue(checkpoint.ref, checkpoint.data)])
        head.checkpoint = checkpoint.ref
        commit.effects["checkpoint"] = checkpoint.ref


async def store_extras(tx: Tx, commit: Commit) -> None:
    """Bytes, evidence and memories, in the order that lets each refer to the one before."""
    command = commit.command
    if command.blobs:
        await attach_blobs(tx, commit)
    if command.artifacts:
        await put_in_commit(tx, commit)
    if command.traces or command.reports:
        await append_in_commit(tx, commit)
    if command.memories:
        await remember_in_commit(tx, commit)
