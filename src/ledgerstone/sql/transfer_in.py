"""Moving a store, into it: canonical rows become rows of this database, never over others.

All rows of a command that go into one table are written by one statement, however many sessions
they are of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from ledgerstone.commands.transfer import (
    Chunk,
    ExportTable,
    ImportRows,
    IsCopyUnfinished,
    MarkCopy,
    Row,
)
from ledgerstone.commands.turns import VerifyStore
from ledgerstone.errors import CopyConflict, InvalidValue
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import tickets as ticket_rules
from ledgerstone.rules import usage as usage_rules
from ledgerstone.rules.chain import GENESIS
from ledgerstone.rules.transfer import (
    BLOBS,
    COPY_MARK,
    OF_A_TENANT,
    SESSIONS,
    TABLES,
    TURNS,
    UNFINISHED,
    by_owner,
)
from ledgerstone.sql.run_rows import read_run
from ledgerstone.sql.transfer import export_table, fetch_sessions, run_of_one
from ledgerstone.sql.transfer_places import Into
from ledgerstone.sql.tx import Tx

_TENANT = {table.name for table in OF_A_TENANT}
_ANY_BYTES = 1 << 62


async def import_rows(tx: Tx, command: ImportRows) -> int:
    """Write what is not there yet; how many rows."""
    into = Into(tx, command.tenant)
    await _meet(into, command)
    rows: dict[str, list[Row]] = {}
    for chunk in command.chunks:
        if chunk.table not in _IMPORTS:
            raise InvalidValue("table", f"nobody knows {chunk.table!r}")
        for piece in _pieces(into, chunk):
            if not await _is_repeat(into, piece):
                if piece.table == SESSIONS.name:
                    into.fresh.update(row[0] for row in piece.rows)
                rows.setdefault(piece.table, []).extend(piece.rows)
    if SESSIONS.name in rows:
        await into.make(rows[SESSIONS.name])
    for table, found in rows.items():
        await _IMPORTS[table](into, found)
    await into.settle()
    return sum(map(len, rows.values()))


async def mark_copy(tx: Tx, command: MarkCopy) -> None:
    """The mark stands from before the first row until both stores were compared."""
    if command.ended:
        await tx.run("drop_stub", command.tenant, COPY_MARK)
    else:
        await tx.run("put_stub", command.tenant, COPY_MARK, UNFINISHED, 0, GENESIS, 0)


async def is_copy_unfinished(tx: Tx, query: IsCopyUnfinished | VerifyStore) -> bool:
    """Whether the mark is there."""
    return await tx.one("get_stub", query.tenant, COPY_MARK) is not None


def _pieces(into: Into, chunk: Chunk) -> Iterable[Chunk]:
    """Rows of sessions that were there before are compared session by session."""
    if chunk.table in _TENANT or into.fresh.issuperset(row[0] for row in chunk.rows):
        return [chunk] if chunk.rows else []
    return by_owner(chunk)


async def _meet(into: Into, command: ImportRows) -> None:
    """Find all sessions that the rows name, at once."""
    ids: set[str] = set()
    for chunk in command.chunks:
        if chunk.table in IN_MANY or (chunk.table in TABLES and chunk.table not in _TENANT):
            ids.update(row[0] for row in chunk.rows)
    if ids:
        found = await into.tx.all("import_places", into.tenant, json.dumps(sorted(ids)))
        into.meet(found)


IN_MANY = (SESSIONS.name, TURNS.name)
"""Tables whose rows each begin with a session of their own."""


async def _is_repeat(into: Into, chunk: Chunk) -> bool:
    """Whether these very rows are there; CopyConflict when others are."""
    if chunk.table == BLOBS.name or not TABLES[chunk.table].rooted:
        return False
    if chunk.table == SESSIONS.name:
        return _is_known_session(into, chunk.rows[0])
    if chunk.table == TURNS.name:
        return await _is_known_turn(into, chunk.rows[0])
    count = len(chunk.rows)
    if chunk.table in _TENANT:
        query = ExportTable(
            tenant=into.tenant,
            table=chunk.table,
            after=chunk.after,
            rows_max=count,
            bytes_max=_ANY_BYTES,
        )
        found = (await export_table(into.tx, query)).rows
    else:
        session = chunk.rows[0][0]
        if session in into.fresh:
            return False
        run = run_of_one(into.place(session).number, session)
        found, _ = await fetch_sessions(into.tx, run, chunk.table, chunk.after, count, None)
    if found and found != chunk.rows:
        raise _conflict(into, chunk.table, found[0])
    return bool(found)


def _is_known_session(into: Into, row: Row) -> bool:
    found = into.places.get(row[0])
    if found is None:
        return False
    field = dict(zip(SESSIONS.columns, row, strict=True))
    if found.told == (field["incarnation"], field["revision"], field["fence"], field["link"]):
        return True
    raise _conflict(into, SESSIONS.name, row)


async def _is_known_turn(into: Into, row: Row) -> bool:
    session, revision = row[:2]
    if session in into.fresh:
        return False
    number = into.place(session).number
    found = await into.tx.all("list_turns", number, revision - 1, 1)
    if not found or found[0][0] != revision:
        return False
    if found[0][4] == row[5]:
        return True
    raise _conflict(into, TURNS.name, row)


def _conflict(into: Into, table: str, row: Row) -> CopyConflict:
    return CopyConflict(table, " ".join(map(str, TABLES[table].key_of(row))), into.tenant)


async def _sessions(into: Into, rows: list[Row]) -> None:
    """They were made before everything else, and their heads come last."""


async def _nodes(into: Into, rows: list[Row]) -> None:
    """Nodes, and the session's own numbers of the runs that wrote them."""
    tx, made = into.tx, list[Row]()
    last: Row = (None, None)
    base, place = 0, None
    for row in rows:
        session, ord, parent, seq, role, kind, label, run, meta, format, refs = row[:11]
        if (session, run) != last:
            # What one run wrote follows each other.
            last = (session, run)
            base = into.place(session).base
            place = None if run is None else await into.run(session, run)
        number = None if place is None else place.wrote(ord)
        plain = role is not None
        told = (None if plain else kind, label or None if plain else label, number)
        made.append((base + ord, parent, seq, role, *told, meta, format, refs or None, *row[11:15]))
    if await tx.many("insert_node", made) != len(made):
        raise _conflict(into, "nodes", rows[0])
    hidden = [(into.key(row), row[15], row[16]) for row in rows if row[15] is not None]
    if hidden:
        await tx.many("tombstone", hidden)
    erased = [(into.key(row), row[17]) for row in rows if row[17] is not None]
    if erased:
        await tx.many("erase_node", erased)


async def _runs(into: Into, rows: list[Row]) -> None:
    for session, id, body in rows:
        (await into.run(session, id)).record = body


async def _kept_runs(into: Into, rows: list[Row]) -> None:
    made = []
    for id, session, body in rows:
        run = read_run(id, body)
        told = (run.status, run.parent_run, run.created_us, body)
        made.append((into.tenant, id, session, *told))
    await into.tx.many("import_kept_run", made)


async def _amendments(into: Into, rows: list[Row]) -> None:
    await into.tx.many("insert_amendment", [(into.key(row), *row[2:]) for row in rows])


async def _tickets(into: Into, rows: list[Row]) -> None:
    made = []
    for session, id, body in rows:
        one, number = ticket_rules.read(id, body), into.place(session).number
        told = (one.run_id, one.status, one.reason, one.created_us, one.expires_us, body)
        made.append((into.tenant, id, number, *told))
    await into.tx.many("import_ticket", made)


async def _executions(into: Into, rows: list[Row]) -> None:
    made = []
    for session, id, body in rows:
        one, number = execution_rules.read(id, body), into.place(session).number
        what = (one.call_id, one.message_id, one.run_id, one.ticket, one.status, one.fence)
        made.append((into.tenant, id, number, *what, one.created_us, body))
    await into.tx.many("import_execution", made)


async def _work(into: Into, rows: list[Row]) -> None:
    now_us = into.tx.now_us
    made = [(into.place(row[0]).number, int(row[9] > now_us), *row[1:]) for row in rows]
    await into.tx.many("import_batch", made)


async def _ended_work(into: Into, rows: list[Row]) -> None:
    made = [(into.tenant, into.place(row[0]).number, *row[1:]) for row in rows]
    await into.tx.many("import_ended", made)


async def _work_sums(into: Into, rows: list[Row]) -> None:
    made = [(into.tenant, into.place(row[0]).number, *row[1:]) for row in rows]
    await into.tx.many("import_work_sums", made)


async def _usage_days(into: Into, rows: list[Row]) -> None:
    made = [(into.tenant, into.place(row[0]).number, *row[1:]) for row in rows]
    await into.tx.many("import_usage_day", made)


async def _ready(into: Into, rows: list[Row]) -> None:
    made = [(into.tenant, into.place(row[0]).number, *row[1:]) for row in rows]
    await into.tx.many("import_ready", made)


async def _artifacts(into: Into, rows: list[Row]) -> None:
    made = [
        (into.tenant, id, scope, name, version, place, *rest)
        for scope, place, id, name, version, *rest in rows
    ]
    await into.tx.many("insert_artifact", made)


async def _budgets(into: Into, rows: list[Row]) -> None:
    made = []
    for id, body, *spent in rows:
        budget = usage_rules.read_budget(id, body)
        whose = (budget.scope, usage_rules.subject_of(budget))
        made.append((into.tenant, id, *whose, body, *spent))
    await into.tx.many("insert_budget", made)


async def _blobs(into: Into, rows: list[Row]) -> None:
    """The times of blobs whose bytes were put before; CopyConflict when they are not there."""
    for row in rows:
        if not await into.tx.run("import_blob_times", into.tenant, *row):
            raise _conflict(into, BLOBS.name, row)


_Import = Callable[[Into, list[Row]], Coroutine[Any, Any, None]]


def _of_tenant(statement: str) -> _Import:
    """Rows whose columns are those of the statement, after the tenant."""

    async def write(into: Into, rows: list[Row]) -> None:
        await into.tx.many(statement, [(into.tenant, *row) for row in rows])

    return write


def _of_session(statement: str) -> _Import:
    """The same after the number of the session."""

    async def write(into: Into, rows: list[Row]) -> None:
        made = [(into.place(row[0]).number, *row[1:]) for row in rows]
        await into.tx.many(statement, made)

    return write


_IMPORTS: dict[str, _Import] = {
    "stubs": _of_tenant("import_stub"),
    "kept_runs": _kept_runs,
    "memories": _of_tenant("import_memory"),
    "spaces": _of_tenant("put_space"),
    "embeddings": _of_tenant("import_vector"),
    "sessions": _sessions,
    "attachments": _of_tenant("import_attachment"),
    "artifacts": _artifacts,
    "evidence": _of_tenant("insert_evidence"),
    "budgets": _budgets,
    "blobs": _blobs,
    "turns": _of_session("import_turn"),
    "nodes": _nodes,
    "amendments": _amendments,
    "branches": _of_session("import_branch"),
    "notes": _of_session("keep_note"),
    "contents": _of_session("put_value"),
    "documents": _of_session("import_document"),
    "runs": _runs,
    "tickets": _tickets,
    "executions": _executions,
    "work": _work,
    "ended_work": _ended_work,
    "work_sums": _work_sums,
    "call_sums": _of_session("import_calls"),
    "usage_days": _usage_days,
    "ready": _ready,
}
