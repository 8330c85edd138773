"""Moving a store, out of it: rows of every table in their canonical form, page by page.

Rows of sessions come with the number of their session first; its id is put there at the end. Rows
are read a few at a time, more as it is seen how long they are, so that no page has to be in memory
twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from ledgerstone.commands import transfer as commands
from ledgerstone.commands.transfer import Chunk, Exported, ExportedSessions, Row
from ledgerstone.errors import Corrupt, InvalidValue, SessionNotFound
from ledgerstone.handlers.paging import load_missing
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.tenants import UNFINISHED
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.sessions import SESSION_FIELDS
from ledgerstone.rules.transfer import (
    HEAD,
    IN_OWN_ORDER,
    OF_A_SESSION,
    OF_A_TENANT,
    TABLES,
    TURNS,
)
from ledgerstone.tables import graph
from ledgerstone.tables.blobs import ARTIFACTS_IN_ORDER
from ledgerstone.tables.runs import RUNS
from ledgerstone.tables.schema import BY_NAME
from ledgerstone.tables.sessions import HEADS, SESSIONS, SESSIONS_BY_ID, Head, SessionRow
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.tickets import EXECUTIONS_BY_SESSION, TICKETS_BY_SESSION
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.usage import BUDGETS_BY_ID

Fetch = Callable[[Row | None, int], Awaitable[list[Row]]]
"""So many rows that come after a key; fewer only at the end."""

_OF_TENANT = {table.name for table in OF_A_TENANT}
_ORDER = [table.name for table in OF_A_SESSION]
_ROW_BYTES = 200
"""About what a row is beside its long columns."""
_FIRST_ROWS = 16
_GROWTH = 4
_MANY_ROWS = 500

_ORDERED_BY: dict[str, Index[Any]] = {
    "artifacts": ARTIFACTS_IN_ORDER,
    "budgets": BUDGETS_BY_ID,
}
"""Indexes in the order of the canonical key, where that is not the order of the primary key."""
_SORTED_HERE: dict[str, Index[Any]] = {
    "runs": RUNS.primary,
    "tickets": TICKETS_BY_SESSION,
    "executions": EXECUTIONS_BY_SESSION,
}
"""Tables whose rows no index has by session and id: one that has those of each session."""


@handles(commands.ExportTable)
async def export_table(tx: Tx, query: commands.ExportTable) -> Exported:
    table = query.table
    if table not in _OF_TENANT:
        raise InvalidValue("table", f"{table!r} is none of a tenant")
    own = table in IN_OWN_ORDER
    width, fetch = (1 if own else TABLES[table].key), await _table_of_tenant(tx, query)
    rows, more = await _page(fetch, width, query.after, query.rows_max, query.bytes_max)
    shown = [row[1:] for row in rows] if own else rows
    return Exported(shown, rows[-1][:width] if more else None)


@handles(commands.ExportSessions)
async def export_sessions(tx: Tx, query: commands.ExportSessions) -> ExportedSessions:
    span = await _span_of(tx, query)
    if not span.ids:
        return ExportedSessions([], min(len(query.sessions), 1))
    chunks: list[Chunk] = []
    rows_left, bytes_left = query.rows_max, query.bytes_max
    for name in _ORDER[0 if query.table is None else _ORDER.index(query.table) :]:
        after = query.after if name == query.table else None
        if rows_left <= 0 or bytes_left <= 0:
            return ExportedSessions(chunks, 0, name, after)
        fetch, cursor = await _table_of(tx, span, name), span.cursor(after)
        found, more = await _page(fetch, TABLES[name].key, cursor, rows_left, bytes_left)
        rows = span.named(found)
        if rows:
            chunks.append(Chunk(name, rows, after))
        if more:
            return ExportedSessions(chunks, 0, name, TABLES[name].key_of(rows[-1]))
        rows_left -= len(rows)
        bytes_left -= sum(map(_size, rows))
    return ExportedSessions(chunks, len(span.ids))


async def tenant_rows(tx: Tx, tenant: str, table: str, after: Row | None, limit: int) -> list[Row]:
    """Rows of a table of a tenant, in the order of their keys."""
    index = _ORDERED_BY.get(table, BY_NAME[table].primary)
    columns = TABLES[table].columns
    if table != "stubs":
        return await tx.scan_columns(index, columns, tenant, after=after, limit=limit)
    # One of them may be the mark of a copy.
    rows = await tx.scan_columns(index, columns, tenant, after=after, limit=limit + 1)
    return [row for row in rows if row[1] != UNFINISHED][:limit]


async def session_rows(
    tx: Tx,
    tenant: str,
    session: str,
    number: int,
    table: str,
    after: Row | None,
    limit: int,
) -> list[Row]:
    """Rows of a table of one session, in the order of their keys."""
    span = Span(tenant, {number: session})
    fetch = await _table_of(tx, span, table)
    return span.named(await fetch(span.cursor(after), limit))


class Span(NamedTuple):
    """Sessions of a tenant whose numbers follow each other, so that their rows do, too."""

    tenant: str
    ids: dict[int, str]

    @property
    def bounds(self) -> tuple[Key, Key]:
        """The numbers before the first one and after the last one."""
        return (min(self.ids) - 1,), (max(self.ids) + 1,)

    def cursor(self, after: Row | None) -> Key | None:
        """A canonical key with the number of its session."""
        if after is None:
            return None
        for number, id in self.ids.items():
            if id == after[0]:
                return (number, *after[1:])
        raise SessionNotFound(after[0])

    def named(self, rows: list[Row]) -> list[Row]:
        """Rows with the ids of their sessions."""
        return [(self.ids[row[0]], *row[1:]) for row in rows]


async def _span_of(tx: Tx, query: commands.ExportSessions) -> Span:
    """The first of the sessions, as far as their numbers follow each other."""
    tenant, wanted = query.tenant, query.sessions
    ids: dict[int, str] = {}
    first = await tx.find(SESSIONS_BY_ID, tenant, wanted[0]) if wanted else None
    if first is not None:
        columns, before_it = ("number", "tenant", "id"), (first.number - 1,)
        rows = await tx.scan_columns(SESSIONS.primary, columns, after=before_it, limit=len(wanted))
        for n, (row, id) in enumerate(zip(rows, wanted, strict=False)):
            if row != (first.number + n, tenant, id):
                break
            ids[row[0]] = id
    return Span(tenant, ids)


async def _page(
    fetch: Fetch, width: int, after: Row | None, rows_max: int, bytes_max: int
) -> tuple[list[Row], bool]:
    """Rows that fit, at least one, and whether there may be more.

    The first `width` columns of a row are its place.
    """
    page: list[Row] = []
    size, limit = 0, _FIRST_ROWS
    while True:
        limit = min(limit, rows_max - len(page))
        rows = await fetch(after, limit)
        for row in rows:
            size += _size(row)
            if page and size > bytes_max:
                return page, True
            page.append(row)
        if len(rows) < limit:
            return page, False
        if len(page) >= rows_max:
            return page, True
        after = page[-1][:width]
        fitting = (bytes_max - size) * len(page) // size
        limit = max(1, min(limit * _GROWTH, fitting))


def _size(row: Row) -> int:
    return _ROW_BYTES + sum(len(value) for value in row if type(value) is bytes)


async def _table_of_tenant(tx: Tx, query: commands.ExportTable) -> Fetch:
    """How to read a table of the tenant; what has an order of its own comes with places in it."""
    if query.table == TURNS.name:
        return partial(_turns, tx, query.tenant)
    if query.table == SESSIONS.name:
        numbers = await _numbers(tx, query.tenant, query.after, query.rows_max)
        return partial(_sessions, tx, numbers)
    return partial(tenant_rows, tx, query.tenant, query.table)


async def _numbers(tx: Tx, tenant: str, after: Row | None, limit: int) -> list[int]:
    """Numbers of the tenant's sessions, at least so many if there are.

    All of them at first: most tenants have one page. Later those of all tenants are looked through,
    lest the tenant's are sorted again for each page.
    """
    if after is None:
        return sorted(n for (n,) in await tx.scan_columns(SESSIONS_BY_ID, ("number",), tenant))
    found: list[int] = []
    while len(found) < limit:
        rows = await tx.scan_columns(
            SESSIONS.primary, ("number", "tenant"), after=after, limit=_MANY_ROWS
        )
        found += [number for number, owner in rows if owner == tenant]
        if len(rows) < _MANY_ROWS:
            break
        after = rows[-1][:1]
    return found


async def _sessions(tx: Tx, numbers: list[int], after: Row | None, limit: int) -> list[Row]:
    """Sessions with their heads, each after its number."""
    start = 0 if after is None else bisect_right(numbers, after[0])
    keys = [(number,) for number in numbers[start : start + limit]]
    rows, heads = await tx.get_many(SESSIONS, keys), await tx.get_many(HEADS, keys)
    return [_session(*one) for one in zip(keys, rows, heads, strict=True)]


def _session(key: Key, row: SessionRow | None, head: Head | None) -> Row:
    if row is None or head is None:
        raise Corrupt("sessions", str(key[0]), "number", "its row or its head is not there")
    given = (getattr(row, name) for name in SESSION_FIELDS)
    moved = (getattr(head, name) for name in HEAD)
    return (row.number, row.id, head.incarnation, *given, head.deleted_us, *moved)


async def _turns(tx: Tx, tenant: str, after: Row | None, limit: int) -> list[Row]:
    """Commits of the tenant in the order of the feed, each after its position."""
    found: list[Row] = []
    columns, step = ("pos", "number", *TURNS.columns[1:]), max(limit, _MANY_ROWS)
    sessions: dict[int, SessionRow | None] = {}
    while len(found) < limit:
        rows = await tx.scan_columns(graph.TURNS.primary, columns, after=after, limit=step)
        await load_missing(tx, SESSIONS, sessions, [row[1] for row in rows])
        for row in rows:
            session = sessions[row[1]]
            if session is not None and session.tenant == tenant:
                found.append((row[0], session.id, *row[2:]))
        if len(rows) < step:
            break
        after = rows[-1][:1]
    return found[:limit]


async def _table_of(tx: Tx, span: Span, table: str) -> Fetch:
    """How to read a table of sessions."""
    if table in _SORTED_HERE:
        return partial(_by_id, tx, table, await _sorted_keys(tx, span, table))
    return partial({"nodes": _nodes, "notes": _notes}.get(table, _rows), tx, span, table)


async def _rows(tx: Tx, span: Span, table: str, after: Row | None, limit: int) -> list[Row]:
    columns = ("number", *TABLES[table].columns[1:])
    low, high = span.bounds
    return await tx.scan_columns(
        BY_NAME[table].primary, columns, after=after or low, before=high, limit=limit
    )


async def _nodes(tx: Tx, span: Span, table: str, after: Row | None, limit: int) -> list[Row]:
    """Nodes; their runs by id, and what is not stored to save room is said."""
    rows = await _rows(tx, span, table, after, limit)
    runs = sorted((row[0], row[7]) for row in rows if row[7] is not None)
    if not runs:
        return [_node(row, None) for row in rows]
    (number, first), (last_number, last) = runs[0], runs[-1]
    found = await tx.scan_columns(
        RUNS.primary,
        ("number", "n", "id"),
        after=(number, first - 1),
        before=(last_number, last + 1),
    )
    names = {(number, n): id for number, n, id in found}
    return [_node(row, names.get((row[0], row[7]))) for row in rows]


def _node(row: Row, run: str | None) -> Row:
    number, ord, parent, seq, role, kind, label, _, meta, format, refs, *rest = row
    kind = (kind or "") if role is None else MESSAGE
    return (
        number, ord, parent, seq, role, kind, label or "", run, meta, format, refs or "", *rest,
    )  # fmt: skip


async def _notes(tx: Tx, span: Span, table: str, after: Row | None, limit: int) -> list[Row]:
    rows = await _rows(tx, span, table, after, limit)
    return [(*row[:4], row[4] or "", *row[5:]) for row in rows]


async def _sorted_keys(tx: Tx, span: Span, table: str) -> list[Key]:
    """Number, id and primary key of all rows, by the first two. Runs without a record are none."""
    index = _SORTED_HERE[table]
    low, high = span.bounds
    columns = ("number", "id", "tenant", *index.table.key)
    keys = await tx.scan_columns(index, columns, after=low, before=high)
    return sorted((key[0], key[1], *key[3:]) for key in keys if key[2] is not None)


async def _by_id(tx: Tx, table: str, keys: list[Key], after: Row | None, limit: int) -> list[Row]:
    """Rows by session and id, of a table that has no index for that."""
    start = 0 if after is None else bisect_right(keys, after, key=lambda key: key[:2])
    chosen, stored = keys[start : start + limit], BY_NAME[table]
    rows = await tx.get_many(stored, [key[2:] for key in chosen])
    return [_picked(stored, key, row) for key, row in zip(chosen, rows, strict=True)]


def _picked(table: Table[Any], key: Key, row: Any) -> Row:
    if row is None:
        raise Corrupt(table.name, key[1], "number", "an index has it, the table has not")
    return (key[0], *(getattr(row, name) for name in TABLES[table.name].columns[1:]))
