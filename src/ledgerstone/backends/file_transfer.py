"""Importing rows into files: a line is of one journal, so a command becomes one for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ledgerstone.commands.transfer import Chunk, ImportRows, Row
from ledgerstone.rules.transfer import OF_A_SESSION, TABLES

_OWNED = {"turns", "attachments", "artifacts", "evidence", "sessions"}
"""Tables of a tenant whose rows begin with what decides about their journal."""
_OF_A_SESSION = {table.name for table in OF_A_SESSION}


def parts(command: ImportRows) -> Iterator[ImportRows]:
    """The same rows in the same order, those of one journal at a time."""
    chunks = (piece for chunk in command.chunks for piece in _pieces(chunk))
    for _, group in groupby(chunks, key=_owner):
        yield ImportRows(tenant=command.tenant, chunks=tuple(group))


def _pieces(chunk: Chunk) -> Iterator[Chunk]:
    if chunk.table not in _OWNED:
        yield chunk
        return
    after = chunk.after
    for _, group in groupby(chunk.rows, key=_first):
        rows = list(group)
        yield Chunk(chunk.table, rows, after)
        after = TABLES[chunk.table].key_of(rows[-1])


def _first(row: Row) -> Any:
    return row[0]


def _owner(chunk: Chunk) -> tuple[str, Any]:
    """Chunks of one owner may stand in one line: those of a session, or of the store."""
    if chunk.table in _OF_A_SESSION or chunk.table == "sessions":
        return "session", chunk.rows[0][0] if chunk.rows else None
    if chunk.table in _OWNED:
        return chunk.table, chunk.rows[0][0] if chunk.rows else None
    return "store", None
