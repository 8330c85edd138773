"""Notes, drafts and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from ledgerstone.codec import decode_json, sha256
from ledgerstone.commands import nodes as commands
from ledgerstone.errors import Corrupt
from ledgerstone.handlers.heads import find_head, number_of, open_session
from ledgerstone.handlers.registry import handles
from ledgerstone.records.drafts import DRAFT_PREFIX, DraftRecord
from ledgerstone.records.nodes import Note
from ledgerstone.rules.bodies import read_any
from ledgerstone.tables.graph import CONTENTS, NOTES, NOTES_DRAFTS, ContentRow, NoteRow
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx

DIGEST_CHARS = 64
NoteMode: TypeAlias = Literal["keep_note", "replace_note"]


@handles(commands.AnnotateNodes)
async def annotate_nodes(tx: Tx, command: commands.AnnotateNodes) -> int:
    head = await open_session(tx, command.tenant, command.session)
    await put_values(tx, head, command.values)
    how: NoteMode = "keep_note" if command.mode == "keep" else "replace_note"
    return await write_notes(tx, head, command.notes, tx.now_us, how)


async def put_values(tx: Tx, head: Head, values: Sequence[commands.NewValue]) -> None:
    """Add values that the session does not have yet."""
    new = {(head.number, value.digest): value.data for value in values}
    stored = await tx.get_many(CONTENTS, new)
    for (key, data), row in zip(new.items(), stored, strict=True):
        if row is None:
            tx.put(CONTENTS, ContentRow(*key, data))


async def write_notes(
    tx: Tx,
    head: Head,
    notes: Sequence[commands.NewNote],
    created_us: int,
    how: NoteMode,
) -> int:
    """Write notes; with keep_note only where there is none yet. How many were written."""
    keys = [(head.number, note.node, note.key) for note in notes]
    taken = set[tuple[int, str, str]]()
    if how == "keep_note":
        stored = await tx.get_many(NOTES, keys)
        taken = {key for key, row in zip(keys, stored, strict=True) if row is not None}
    written = 0
    for key, note in zip(keys, notes, strict=True):
        if how == "keep_note" and key in taken:
            continue
        taken.add(key)
        tx.put(NOTES, NoteRow(*key, note.format, "".join(note.refs), created_us, note.body))
        written += 1
    return written


@handles(commands.DropNotes)
async def drop_notes(tx: Tx, command: commands.DropNotes) -> int:
    head = await find_head(tx, command.tenant, command.session)
    return 0 if head is None else await drop_notes_of(tx, head, command.node, command.prefix)


async def drop_notes_of(tx: Tx, head: Head, node: str, prefix: str) -> int:
    """Remove notes of a node by prefix; how many there were."""
    keys = [
        key
        for (key,) in await tx.scan_columns(NOTES.primary, ("key",), head.number, node)
        if key.startswith(prefix)
    ]
    for key in keys:
        tx.delete(NOTES, head.number, node, key)
    return len(keys)


@handles(commands.GetNotes)
async def get_notes(tx: Tx, query: commands.GetNotes) -> dict[str, dict[str, Note]]:
    number = await number_of(tx, query.tenant, query.session)
    if number is None:
        return {}
    found = {node: await notes_of(tx, number, node, query.prefix) for node in query.nodes}
    return {node: notes for node, notes in found.items() if notes}


async def notes_of(tx: Tx, number: int, node: str, prefix: str = "") -> dict[str, Note]:
    """The notes of one node of a session, in key order."""
    return {
        row.key: Note(
            node,
            row.key,
            read_any(row.body, row.format, f"note {node}/{row.key}"),
            row.created_us,
            split_refs(row.refs),
        )
        for row in await tx.scan(NOTES.primary, number, node)
        if row.key.startswith(prefix)
    }


async def values_of(tx: Tx, number: int, digests: Sequence[str]) -> dict[str, bytes]:
    """Values of a session that are there; bytes that do not fit their name are Corrupt."""
    rows = await tx.get_many(CONTENTS, [(number, digest) for digest in digests])
    found = {row.digest: row.data for row in rows if row is not None}
    for digest, data in found.items():
        if sha256(data) != digest:
            raise Corrupt("contents", digest, "data", "the bytes do not fit their name")
    return found


@handles(commands.ListDrafts)
async def list_drafts(tx: Tx, query: commands.ListDrafts) -> list[DraftRecord]:
    number = await number_of(tx, query.tenant, query.session)
    if number is None:
        return []
    by_node: dict[str, list[NoteRow]] = {}
    for row in await tx.scan(NOTES_DRAFTS, number):
        by_node.setdefault(row.node, []).append(row)
    drafts = [_draft(query.session, node, notes) for node, notes in by_node.items()]
    return sorted(drafts, key=lambda draft: (draft.created_us, draft.id))


def _draft(session: str, node: str, notes: list[NoteRow]) -> DraftRecord:
    start, chunks = {}, []
    created_us = notes[0].created_us
    try:
        for note in notes:
            content = decode_json(note.body)
            if note.key == DRAFT_PREFIX + "start":
                start, created_us = content, note.created_us
            else:
                chunks.append(content)
        text = "".join(chunks)
    except (ValueError, TypeError) as error:
        raise Corrupt("notes", node, "body", str(error)) from None
    return DraftRecord(
        session=session,
        id=node,
        text=text,
        role=start.get("role", "assistant"),
        owner=start.get("owner", ""),
        fields=start.get("fields", {}),
        chunks=len(chunks),
        created_us=created_us,
        updated_us=max(note.created_us for note in notes),
    )


def split_refs(refs: str | None) -> tuple[str, ...]:
    """Digests from the text they are stored as."""
    if not refs:
        return ()
    return tuple(refs[n : n + DIGEST_CHARS] for n in range(0, len(refs), DIGEST_CHARS))
