"""Notes beside nodes, and the drafts that are kept as notes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledgerstone.codec import decode_json
from ledgerstone.commands.nodes import (
    AnnotateNodes,
    DropNotes,
    GetNotes,
    ListDrafts,
    NewNote,
    NewValue,
)
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.records.drafts import DRAFT_PREFIX, DraftRecord
from ledgerstone.records.nodes import Note
from ledgerstone.rules.bodies import read_any
from tests.oracle.model.rows import NoteRow, split_refs
from tests.oracle.model.standing import Standing, find, require_alive
from tests.oracle.model.state import Tx

_START = DRAFT_PREFIX + "start"


def put_note(tx: Tx, number: int, note: NewNote, created_us: int) -> None:
    """Write or replace one note."""
    row = NoteRow(note.body, note.format, "".join(note.refs), created_us)
    tx.state.notes.put((number, note.node, note.key), row)


def keep_note(tx: Tx, number: int, note: NewNote, created_us: int) -> bool:
    """Write one note unless its key has one already; whether it was written."""
    if (number, note.node, note.key) in tx.state.notes:
        return False
    put_note(tx, number, note, created_us)
    return True


def put_values(tx: Tx, number: int, values: Iterable[NewValue]) -> None:
    """Keep values that the session does not have yet."""
    for value in values:
        if (number, value.digest) not in tx.state.values:
            tx.state.values.insert((number, value.digest), value.data)


def drop(tx: Tx, number: int, node: str, prefix: str) -> int:
    """Remove the notes of one node whose keys start with a prefix; answers how many."""
    keys = [key for key, _ in _with_prefix(tx, number, node, prefix)]
    for key in keys:
        tx.state.notes.delete(key)
    return len(keys)


def _with_prefix(
    tx: Tx, number: int, node: str, prefix: str
) -> list[tuple[tuple[int, str, str], NoteRow]]:
    found = []
    for key, row in tx.state.notes.scan((number, node), since=(number, node, prefix)):
        if not key[2].startswith(prefix):
            break
        found.append((key, row))
    return found


def annotate_nodes(tx: Tx, command: AnnotateNodes) -> int:
    """Write notes; neither head, revision nor fence is concerned."""
    if command.mode not in ("keep", "replace"):
        raise InvalidValue("mode", f"{command.mode!r} is neither keep nor replace")
    found = require_alive(tx, command.tenant, command.session)
    put_values(tx, found.number, command.values)
    if command.mode == "keep":
        return sum(keep_note(tx, found.number, note, tx.now_us) for note in command.notes)
    for note in command.notes:
        put_note(tx, found.number, note, tx.now_us)
    return len(command.notes)


def drop_notes(tx: Tx, command: DropNotes) -> int:
    """Remove notes of one node; 0 when the session is unknown."""
    found = find(tx, command.tenant, command.session)
    return 0 if found is None else drop(tx, found.number, command.node, command.prefix)


def notes_of(tx: Tx, standing: Standing, node: str, prefix: str = "") -> dict[str, Note]:
    """The notes of one node in key order."""
    return {
        key: Note(
            node,
            key,
            read_any(row.body, row.format, f"{standing.id}/{node}/{key}"),
            row.created_us,
            split_refs(row.refs),
        )
        for (_, _, key), row in _with_prefix(tx, standing.number, node, prefix)
    }


def get_notes(tx: Tx, query: GetNotes) -> dict[str, dict[str, Note]]:
    """Notes of several nodes; a node without any is absent."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return {}
    noted = ((node, notes_of(tx, found, node, query.prefix)) for node in query.nodes)
    return {node: notes for node, notes in noted if notes}


def list_drafts(tx: Tx, query: ListDrafts) -> list[DraftRecord]:
    """Unfinished messages of a session, oldest first."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return []
    pieces: dict[str, dict[str, NoteRow]] = {}
    for (_, node, key), row in tx.state.notes.scan((found.number,)):
        if key.startswith(DRAFT_PREFIX):
            pieces.setdefault(node, {})[key] = row
    drafts = [_to_draft(query.session, node, rows) for node, rows in pieces.items()]
    return sorted(drafts, key=lambda draft: (draft.created_us, draft.id))


def _to_draft(session: str, node: str, rows: dict[str, NoteRow]) -> DraftRecord:
    start = rows.get(_START)
    chunks = [(key, row) for key, row in rows.items() if key != _START]
    first = start if start is not None else chunks[0][1]
    given = {} if start is None else _decode(start, f"{session}/{node}/{_START}")
    return DraftRecord(
        session=session,
        id=node,
        text="".join(_decode(row, f"{session}/{node}/{key}") for key, row in chunks),
        role=given.get("role", "assistant"),
        owner=given.get("owner", ""),
        fields=given.get("fields", {}),
        chunks=len(chunks),
        created_us=first.created_us,
        updated_us=max(row.created_us for row in rows.values()),
    )


def _decode(row: NoteRow, where: str) -> Any:
    try:
        return decode_json(row.body)
    except ValueError as error:
        raise Corrupt("notes", where, "body", str(error)) from None
