"""What the hash chain says of stored rows."""

from __future__ import annotations

from ledgerstone.records.nodes import MESSAGE
from ledgerstone.rules.chain import commit_fields
from ledgerstone.sql.tx import Row


def row_commitment(row: Row) -> bytes:
    """The commitment of a row of `chain_rows`: computed, or kept when the body was erased."""
    _, _, _, salt, role, kind, label, run_id, meta, format, refs, created_us, body, kept = row[:14]
    if body is None:
        return bytes(kept or b"")
    return commit_fields(
        salt or b"",
        role,
        kind or MESSAGE,
        label or "",
        run_id,
        meta,
        format,
        refs or "",
        created_us,
        body,
    )


def chain_node(row: Row) -> tuple[int, int, str, bytes]:
    """A row of `chain_rows` as the link function wants it."""
    return (row[0], row[1], row[2], row_commitment(row))
