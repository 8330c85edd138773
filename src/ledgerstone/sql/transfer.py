"""Moving a store, out of it: rows of every table in their canonical form, page by page."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ledgerstone.commands.transfer import (
    Chunk,
    Exported,
    ExportedSessions,
    ExportSessions,
    ExportTable,
    Row,
)
from ledgerstone.errors import InvalidValue
from ledgerstone.rules.transfer import IN_OWN_ORDER, OF_A_SESSION, OF_A_TENANT, SESSIONS, TABLES
from ledgerstone.sql.heads import ORD_BITS
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


_AFTER = ("number", "after")

_EXPORTS = {
    "stubs": Export("export_stubs", start=(None,), long=False),
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
    "branches": Export("export_branches", _AFTER, long=False),
    "notes": Export("export_notes", ("number", "node", "key")),
    "contents": Export("export_contents", _AFTER),
    "documents": Export("export_documents", _AFTER),
    "runs": Export("export_runs", _AFTER),
    "tickets": Export("export_tickets", _AFTER),
    "executions": Export("export_executions", _AFTER),
    "work": Export("export_work", _AFTER),
    "ended_work": Export("export_ended_work", _AFTER),
    "work_sums": Export("export_work_sums", ("number",), long=False),
    "call_sums": Export("export_call_sums", ("number",), long=False),
    "usage_days": Export(
        "export_usage_days",
        ("number", "day", "model", "provider", "source", "currency"),
        long=False,
    ),
    "ready": Export("export_ready", _AFTER, long=False),
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
    given: dict[str, Any] = {"tenant": query.tenant, **dict(cursor)}
    if table == SESSIONS.name and query.after is None:
        given["start"] = True
    rows, more = await _fetch(tx, table, given, query.rows_max, query.bytes_max)
    if table in IN_OWN_ORDER:
        found = [row[1:] for row in rows]
        return Exported(found, rows[-1][:1] if more else None)
    return Exported(rows, TABLES[table].key_of(rows[-1]) if more else None)


class Run(NamedTuple):
    """Sessions whose numbers follow each other, so that their rows do, too: ids by number."""

    low: int
    high: int
    ids: dict[int, str]

    @property
    def span(self) -> dict[str, int]:
        """Their keys, of which the first is no row's."""
        return {"first": self.low << ORD_BITS, "last": (self.high << ORD_BITS) + _LAST_ORD}

    def number(self, session: str) -> int:
        return next(number for number, id in self.ids.items() if id == session)


async def export_sessions(tx: Tx, query: ExportSessions) -> ExportedSessions:
    """A page of what belongs to sessions, table by table."""
    run, covered = await _run_of(tx, query)
    if run is None:
        return ExportedSessions([], covered)
    # What is known to be small needs no look at the sizes; sessions that go on are not.
    known = None if query.table is not None else await _survey(tx, run)
    chunks: list[Chunk] = []
    rows_left, bytes_left = query.rows_max, query.bytes_max
    first = 0 if query.table is None else _ORDER.index(query.table)
    for name in _ORDER[first:]:
        after = query.after if name == query.table else None
        count, size = (None, 0) if known is None else known[name]
        if count == 0:
            continue
        if rows_left <= 0 or bytes_left <= 0:
            return ExportedSessions(chunks, 0, name, after)
        fits = count is not None and count <= rows_left and size <= bytes_left
        limit = bytes_left if not fits else None
        rows, more = await fetch_sessions(tx, run, name, after, rows_left, limit)
        if rows:
            chunks.append(Chunk(name, rows, after))
        if more:
            return ExportedSessions(chunks, 0, name, TABLES[name].key_of(rows[-1]))
        rows_left -= len(rows)
        bytes_left -= size if known is not None else _measure(rows)
    return ExportedSessions(chunks, covered)


async def _run_of(tx: Tx, query: ExportSessions) -> tuple[Run | None, int]:
    """The first of the sessions, as far as their numbers follow each other; how many these are."""
    wanted = json.dumps(list(query.sessions))
    found = {row[0]: row[1] for row in await tx.all("import_places", query.tenant, wanted)}
    ids: dict[int, str] = {}
    last = 0
    for id in query.sessions:
        number = found.get(id)
        if number is None or (ids and number != last + 1):
            return _run(ids), len(ids) or 1
        ids[number] = id
        last = number
    return _run(ids), len(ids)


def _run(ids: dict[int, str]) -> Run | None:
    return Run(min(ids), max(ids), ids) if ids else None


def run_of_one(number: int, session: str) -> Run:
    """A session alone."""
    return Run(number, number, {number: session})


async def _survey(tx: Tx, run: Run) -> dict[str, tuple[int, int]]:
    """Rows and bytes by table."""
    keys = (run.low << ORD_BITS, (run.high << ORD_BITS) + _LAST_ORD)
    found = await tx.all("survey_sessions", run.low, run.high, *keys)
    return {name: (count, size + count * _ROW_BYTES) for name, count, size in found}


def _measure(rows: list[Row]) -> int:
    return sum(
        _ROW_BYTES + sum(len(value) for value in row if type(value) is bytes) for row in rows
    )


async def fetch_sessions(
    tx: Tx, run: Run, table: str, after: Row | None, rows_max: int, bytes_max: int | None
) -> tuple[list[Row], bool]:
    """Rows of sessions after a key, and whether there may be more; no bytes: all of them fit."""
    rows, more = await _fetch(tx, table, _place(run, table, after), rows_max, bytes_max)
    return [(run.ids[row[0]], *row[1:]) for row in rows], more


def _place(run: Run, table: str, after: Row | None) -> dict[str, Any]:
    """Where the rows of sessions in a table begin and end."""
    cursor = None if after is None else (run.number(after[0]), *after[1:])
    if table == "nodes":
        span = run.span
        return span if cursor is None else {**span, "first": (cursor[0] << ORD_BITS) + cursor[1]}
    if table == "amendments":
        if cursor is None:
            return {**run.span, "key": None, "version": None}
        key = (cursor[0] << ORD_BITS) + cursor[1]
        return {**run.span, "first": key - 1, "key": key, "version": cursor[2]}
    names = _EXPORTS[table].names
    low = run.low if cursor is None else cursor[0]
    place = run.span if table == "runs" else {"low": low, "high": run.high}
    return {**place, **dict(zip(names, cursor or (None,) * len(names), strict=True))}


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
    return rows, len(rows) == limit


def _fitting(sizes: list[int], bytes_max: int) -> int:
    """How many of the rows fit; at least one."""
    total = 0
    for n, size in enumerate(sizes):
        total += size + _ROW_BYTES
        if total > bytes_max:
            return max(n, 1)
    return len(sizes)
