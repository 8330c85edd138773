"""Moving a store, out of it: rows of every table in their canonical form, page by page."""

from __future__ import annotations

from typing import Any, NamedTuple

from ledgerstone.commands.transfer import (
    Chunk,
    Exported,
    ExportedSession,
    ExportSession,
    ExportTable,
    Row,
)
from ledgerstone.errors import InvalidValue
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.transfer import IN_OWN_ORDER, OF_A_SESSION, OF_A_TENANT, TABLES
from ledgerstone.sql.heads import ORD_BITS, base_of, find_head
from ledgerstone.sql.tx import Tx

_LAST_ORD = (1 << ORD_BITS) - 1
_TENANT = {table.name for table in OF_A_TENANT}
_ORDER = [table.name for table in OF_A_SESSION]


class Export(NamedTuple):
    """How a table is read: the statement, the arguments that say after which row to begin, what
    those are at its start, and whether its rows may be long, so that their sizes are asked first.
    """

    statement: str
    names: tuple[str, ...] = ("after",)
    start: Row = ("",)
    long: bool = True


_EXPORTS = {
    "stubs": Export("export_stubs", long=False),
    "kept_runs": Export("export_kept_runs"),
    "memories": Export("export_memories", ("namespace", "key"), (None, None)),
    "spaces": Export("export_spaces", start=(None,), long=False),
    "embeddings": Export("export_embeddings", ("kind", "id"), (None, None)),
    "sessions": Export("export_sessions", start=(0,)),
    "attachments": Export("export_attachments", ("session", "id"), ("", ""), long=False),
    "artifacts": Export("export_artifacts", ("scope", "place"), ("", 0)),
    "evidence": Export("export_evidence", ("session", "kind", "n"), ("", "", -1)),
    "budgets": Export("export_budgets", long=False),
    "blobs": Export("export_blobs", long=False),
    "turns": Export("export_turns", start=(-1,)),
    "nodes": Export("export_nodes"),
    "amendments": Export("export_amendments"),
    "branches": Export("export_branches", long=False),
    "notes": Export("export_notes", ("node", "key"), (None, None)),
    "contents": Export("export_contents"),
    "documents": Export("export_documents"),
    "runs": Export("export_runs"),
    "tickets": Export("export_tickets"),
    "executions": Export("export_executions"),
    "work": Export("export_work", start=(0,)),
    "dead_work": Export("export_dead_work"),
    "usage_days": Export(
        "export_usage_days",
        ("day", "model", "provider", "source", "currency"),
        (None, None, None, None, None),
        long=False,
    ),
    "ready": Export("export_ready", long=False),
}
_ROW_BYTES = 200
"""About what a row is beside its long columns."""


async def export_table(tx: Tx, query: ExportTable) -> Exported:
    """A page of what belongs to the tenant."""
    table = query.table
    if table not in _TENANT:
        raise InvalidValue("table", f"{table!r} is none of a tenant")
    export = _EXPORTS[table]
    cursor = zip(export.names, query.after or export.start, strict=True)
    given = {"tenant": query.tenant, **dict(cursor)}
    rows, more = await _fetch(tx, table, given, query.rows_max, query.bytes_max)
    if table in IN_OWN_ORDER:
        found = [row[1:] for row in rows]
        return Exported(found, rows[-1][:1] if more else None)
    return Exported(rows, TABLES[table].key_of(rows[-1]) if more else None)


async def export_session(tx: Tx, query: ExportSession) -> ExportedSession:
    """A page of what belongs to a session, table by table."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return ExportedSession([])
    # What is known to be small needs no look at the sizes; a session that goes on is not.
    known = None if query.table is not None else await _survey(tx, head)
    chunks: list[Chunk] = []
    rows_left, bytes_left = query.rows_max, query.bytes_max
    first = 0 if query.table is None else _ORDER.index(query.table)
    for name in _ORDER[first:]:
        after = query.after if name == query.table else None
        count, size = (None, 0) if known is None else known[name]
        if count == 0:
            continue
        if rows_left <= 0 or bytes_left <= 0:
            return ExportedSession(chunks, name, after)
        fits = count is not None and count <= rows_left and size <= bytes_left
        limit = bytes_left if not fits else None
        rows, more = await fetch_session(tx, head, query.session, name, after, rows_left, limit)
        if rows:
            chunks.append(Chunk(name, rows, after))
        if more:
            return ExportedSession(chunks, name, TABLES[name].key_of(rows[-1]))
        rows_left -= len(rows)
        bytes_left -= size if known is not None else _measure(rows)
    return ExportedSession(chunks)


async def _survey(tx: Tx, head: HeadRow) -> dict[str, tuple[int, int]]:
    """Rows and bytes by table."""
    base = base_of(head)
    found = await tx.all("survey_session", head.number, base, base + _LAST_ORD)
    return {name: (count, size + count * _ROW_BYTES) for name, count, size in found}


def _measure(rows: list[Row]) -> int:
    return sum(
        _ROW_BYTES + sum(len(value) for value in row if type(value) is bytes) for row in rows
    )


async def fetch_session(
    tx: Tx,
    head: HeadRow,
    session: str,
    table: str,
    after: Row | None,
    rows_max: int,
    bytes_max: int | None,
) -> tuple[list[Row], bool]:
    """Rows of a session after a key, and whether there may be more; None: all of them fit."""
    if table == "call_sums":
        row = None if after else await tx.one("get_call_sums", head.number)
        return ([] if row is None else [(session, *row)]), False
    given = _place(head, table, after[1:] if after else None)
    rows, more = await _fetch(tx, table, given, rows_max, bytes_max)
    return [(session, *row) for row in rows], more


def _place(head: HeadRow, table: str, after: Row | None) -> dict[str, Any]:
    """Where a session's rows of a table begin and end."""
    base = base_of(head)
    span = {"first": base, "last": base + _LAST_ORD}
    if table == "nodes":
        return {**span, "first": base + (after[0] if after else 0)}
    if table == "amendments":
        ord, version = after or (None, None)
        return {**span, "key": None if ord is None else base + ord, "version": version}
    export = _EXPORTS[table]
    cursor = dict(zip(export.names, after or export.start, strict=True))
    return {**(span if table == "runs" else {"number": head.number}), **cursor}


async def _fetch(
    tx: Tx, table: str, given: dict[str, Any], rows_max: int, bytes_max: int | None
) -> tuple[list[Row], bool]:
    """Rows that fit, and whether there may be more."""
    statement, limit = _EXPORTS[table].statement, rows_max
    given["limit"] = limit
    if _EXPORTS[table].long:
        if bytes_max is not None:
            sizes = await tx.pick(statement, sizes=True, **given)
            if not sizes:
                return [], False
            fitting = _fitting([size for (size,) in sizes], bytes_max)
            if fitting < len(sizes):
                limit = fitting
        given |= {"limit": limit, "rows": True}
    rows = await tx.pick(statement, **given)
    return [_canonical(table, row) for row in rows], len(rows) == limit


def _fitting(sizes: list[int], bytes_max: int) -> int:
    """How many of the rows fit; at least one."""
    total = 0
    for n, size in enumerate(sizes):
        total += size + _ROW_BYTES
        if total > bytes_max:
            return max(n, 1)
    return len(sizes)


def _canonical(table: str, row: Row) -> Row:
    """A row as it is in every backend: what this one leaves out to save room is said."""
    if table == "nodes":
        ord, parent, seq, role, kind, label, run, meta, format, refs, *rest = row
        kind = MESSAGE if role is not None else kind or ""
        return (ord, parent, seq, role, kind, label or "", run, meta, format, refs or "", *rest)
    if table == "notes":
        node, key, format, refs, *rest = row
        return (node, key, format, refs or "", *rest)
    return tuple(row)
