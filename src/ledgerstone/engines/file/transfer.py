"""Importing rows into files: a line is of one journal, so a command becomes one for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ledgerstone.commands.transfer import Chunk, ImportRows
from ledgerstone.rules.transfer import OF_A_SESSION, SESSIONS, by_owner

_OWNED = ("turns", "attachments", "artifacts", "evidence")
"""Tables of a tenant whose rows begin with what decides about their journal."""
_OF_A_SESSION = {SESSIONS.name, *(table.name for table in OF_A_SESSION)}


def parts(command: ImportRows) -> Iterator[ImportRows]:
    """The same rows in the same order, those of one journal at a time."""
    chunks = (piece for chunk in command.chunks if chunk.rows for piece in by_owner(chunk))
    for _, group in groupby(chunks, key=_owner):
        yield ImportRows(tenant=command.tenant, chunks=tuple(group))


def _owner(chunk: Chunk) -> tuple[str, Any]:
    """Chunks of one owner may stand in one line: those of a session, or of the store."""
    if chunk.table in _OF_A_SESSION:
        return "session", chunk.rows[0][0]
    return (chunk.table, chunk.rows[0][0]) if chunk.table in _OWNED else ("store", None)
