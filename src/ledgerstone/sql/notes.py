"""Notes, drafts and values."""

from __future__ import annotations

from ledgerstone.codec import decode_json, sha256
from ledgerstone.commands.nodes import (
    AnnotateNodes,
    DropNotes,
    GetNotes,
    GetValues,
    ListDrafts,
    NewNote,
)
from ledgerstone.errors import Corrupt
from ledgerstone.records.drafts import DRAFT_PREFIX, DraftRecord
from ledgerstone.records.nodes import Note
from ledgerstone.rules.bodies import read_any
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.heads import find_head, need_head
from ledgerstone.sql.tx import Tx

DIGEST_CHARS = 64


async def annotate_nodes(tx: Tx, command: AnnotateNodes) -> int:
    """Write notes beside nodes that may not exist yet."""
    head = await need_head(tx, command.tenant, command.session)
    check_alive(command.session, head)
    for value in command.values:
        await tx.run("put_value", head.number, value.digest, value.data)
    query = "keep_note" if command.mode == "keep" else "replace_note"
    return await write_notes(tx, head, command.notes, tx.now_us, query)


async def write_notes(
    tx: Tx, head: HeadRow, notes: tuple[NewNote, ...], created_us: int, query: str
) -> int:
    """Keep or replace notes; how many were written."""
    written = 0
    for note in notes:
        refs = "".join(note.refs)
        key = (head.number, note.node, note.key)
        written += await tx.run(query, *key, note.format, refs, created_us, note.body)
    return written


async def drop_notes(tx: Tx, command: DropNotes) -> int:
    """Remove notes of a node by prefix."""
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return 0
    return await drop_notes_of(tx, head, command.node, command.prefix)


async def drop_notes_of(tx: Tx, head: HeadRow, node: str, prefix: str) -> int:
    """Remove notes of a node by prefix; how many there were."""
    return await tx.run("drop_notes", head.number, node, prefix, prefix + "\U0010ffff")


async def get_notes(tx: Tx, query: GetNotes) -> dict[str, dict[str, Note]]:
    """Notes by node and key."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return {}
    found = {node: await notes_of(tx, head, node, query.prefix) for node in query.nodes}
    return {node: notes for node, notes in found.items() if notes}


async def notes_of(tx: Tx, head: HeadRow, node: str, prefix: str = "") -> dict[str, Note]:
    """The notes of one node, in key order."""
    notes = {}
    for key, format, refs, created_us, body in await tx.all("notes_of", head.number, node):
        if key.startswith(prefix):
            content = read_any(body, format, f"note {node}/{key}")
            notes[key] = Note(node, key, content, created_us, split_refs(refs))
    return notes


async def get_values(tx: Tx, query: GetValues) -> dict[str, bytes]:
    """Values by digest."""
    head = await find_head(tx, query.tenant, query.session)
    return {} if head is None else await values_of(tx, head, query.digests)


async def values_of(tx: Tx, head: HeadRow, digests: tuple[str, ...]) -> dict[str, bytes]:
    """Values that are there; bytes that do not fit their name are Corrupt."""
    found = {}
    for digest in digests:
        row = await tx.one("get_value", head.number, digest)
        if row is not None:
            if sha256(row[0]) != digest:
                raise Corrupt("contents", digest, "data", "the bytes do not fit their name")
            found[digest] = row[0]
    return found


async def list_drafts(tx: Tx, query: ListDrafts) -> list[DraftRecord]:
    """Unfinished messages, oldest first."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    by_node: dict[str, list[tuple[str, int, bytes]]] = {}
    for node, key, created_us, body in await tx.all("draft_notes", head.number):
        by_node.setdefault(node, []).append((key, created_us, body))
    drafts = [_draft(query.session, node, notes) for node, notes in by_node.items()]
    return sorted(drafts, key=lambda draft: (draft.created_us, draft.id))


def _draft(session: str, node: str, notes: list[tuple[str, int, bytes]]) -> DraftRecord:
    start, chunks = {}, []
    created_us = notes[0][1]
    try:
        for key, when_us, body in notes:
            content = decode_json(body)
            if key == DRAFT_PREFIX + "start":
                start, created_us = content, when_us
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
        updated_us=max(when_us for _, when_us, _ in notes),
    )


def split_refs(refs: str | None) -> tuple[str, ...]:
    """Digests from the text they are stored as."""
    if not refs:
        return ()
    return tuple(refs[n : n + DIGEST_CHARS] for n in range(0, len(refs), DIGEST_CHARS))
