"""Moving a store, into it: canonical rows become rows of this database, never over others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from ledgerstone.commands.transfer import Chunk, ExportTable, ImportRows, Row
from ledgerstone.errors import CopyConflict, InvalidValue
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import tickets as ticket_rules
from ledgerstone.rules import usage as usage_rules
from ledgerstone.rules.rows import RECENCY_SHIFT, HeadRow
from ledgerstone.rules.transfer import BLOBS, GIVEN, HEAD, OF_A_TENANT, SESSIONS, TABLES, TURNS
from ledgerstone.sql.heads import base_of, find_head, move_head, need_head, set_lease
from ledgerstone.sql.run_rows import read_run
from ledgerstone.sql.seals import seal_of
from ledgerstone.sql.transfer import export_table, fetch_session
from ledgerstone.sql.tx import Tx

_TENANT = {table.name for table in OF_A_TENANT}
_ANY_BYTES = 1 << 62


class Into:
    """Where the rows of one command go: the transaction, and the heads it has met."""

    def __init__(self, tx: Tx, tenant: str) -> None:
        self.tx = tx
        self.tenant = tenant
        self._heads: dict[str, HeadRow] = {}

    async def head(self, session: str) -> HeadRow:
        """The head of a session that was imported before."""
        found = self._heads.get(session)
        if found is None:
            found = self._heads[session] = await need_head(self.tx, self.tenant, session)
        return found


async def import_rows(tx: Tx, command: ImportRows) -> int:
    """Write what is not there yet; how many rows."""
    into, written = Into(tx, command.tenant), 0
    for chunk in command.chunks:
        write = _IMPORTS.get(chunk.table)
        if write is None:
            raise InvalidValue("table", f"nobody knows {chunk.table!r}")
        if chunk.rows and not await _is_repeat(into, chunk):
            await write(into, chunk.rows)
            written += len(chunk.rows)
    return written


async def _is_repeat(into: Into, chunk: Chunk) -> bool:
    """Whether these very rows are there; CopyConflict when others are."""
    if chunk.table == BLOBS.name or not TABLES[chunk.table].rooted:
        return False
    if chunk.table == TURNS.name:
        return await _is_known_turn(into, chunk)
    if chunk.table == SESSIONS.name:
        return await _is_known_session(into, chunk)
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
        head = await into.head(session)
        found, _ = await fetch_session(
            into.tx, head, session, chunk.table, chunk.after, count, None
        )
    if not found:
        return False
    if found == chunk.rows[: len(found)] and len(found) == count:
        return True
    raise CopyConflict(chunk.table, _name(chunk.table, found[0]), into.tenant)


async def _is_known_turn(into: Into, chunk: Chunk) -> bool:
    session, revision, *_ = row = chunk.rows[0]
    head = await into.head(session)
    found = await into.tx.all("list_turns", head.number, revision - 1, 1)
    if not found or found[0][0] != revision:
        return False
    if found[0][4] == row[5]:
        return True
    raise CopyConflict(chunk.table, _name(chunk.table, row), into.tenant)


async def _is_known_session(into: Into, chunk: Chunk) -> bool:
    row = chunk.rows[0]
    head = await find_head(into.tx, into.tenant, row[0])
    if head is None:
        return False
    field = dict(zip(SESSIONS.columns, row, strict=True))
    told = (field["incarnation"], field["revision"], field["fence"], field["link"])
    if (head.incarnation, head.revision, head.fence, head.link) == told:
        return True
    raise CopyConflict(chunk.table, row[0], into.tenant)


def _name(table: str, row: Row) -> str:
    return " ".join(map(str, TABLES[table].key_of(row)))


async def _sessions(into: Into, rows: list[Row]) -> None:
    tx = into.tx
    for row in rows:
        field = dict(zip(SESSIONS.columns, row, strict=True))
        recency = field["updated_us"] >> RECENCY_SHIFT
        given = [field[name] for name in GIVEN]
        made = await tx.one(
            "insert_session", into.tenant, field["id"], field["incarnation"], *given, recency
        )
        assert made is not None
        if field["deleted_us"] is not None:
            await tx.run("mark_deleted", made[0], field["deleted_us"])
        told = {name: field[name] for name in HEAD}
        head = HeadRow(made[0], field["incarnation"], field["deleted_us"], **told)
        await tx.run("insert_head", head.number, head.fence, head.updated_us, head.link)
        await move_head(tx, head)
        await set_lease(tx, head)
        if head.enqueued:
            await tx.run("count_enqueued", head.number, head.enqueued)


async def _nodes(into: Into, rows: list[Row]) -> None:
    """Nodes, and the session's own numbers of the runs that wrote them."""
    tx, head = into.tx, await into.head(rows[0][0])
    base, before = base_of(head), head.runs
    runs: dict[str, tuple[int, int, int]] = {}
    made: list[Row] = []
    for row in rows:
        _, ord, parent, seq, role, kind, label, run, meta, format, refs, created_us, *rest = row
        number = None
        if run is not None:
            key, first, _ = runs.get(run) or await _place_run(tx, head, run)
            runs[run] = (key, first or ord, ord)
            number = key - base
        plain = role is not None
        told = (None if plain else kind, label or None if plain else label)
        where = (base + ord, parent, seq, role, *told, number)
        made.append((*where, meta, format, refs or None, created_us, *rest[:3]))
    if await tx.many("insert_node", made) != len(made):
        raise CopyConflict("nodes", _name("nodes", rows[0]), into.tenant)
    for place in runs.values():
        await tx.run("extend_run", *place)
    if head.runs != before:
        await tx.run("import_run_count", head.number, head.runs)
    hidden = [(base + row[1], row[15], row[16]) for row in rows if row[15] is not None]
    if hidden:
        await tx.many("tombstone", hidden)
    erased = [(base + row[1], row[17]) for row in rows if row[17] is not None]
    if erased:
        await tx.many("erase_node", erased)


async def _place_run(tx: Tx, head: HeadRow, id: str) -> tuple[int, int, int]:
    """The session's row of a run, made when it is new: its key, first and last ord."""
    row = await tx.one("place_run", head.number, id)
    if row is not None:
        return row[0], row[1], row[2]
    head.runs += 1
    key = base_of(head) + head.runs
    await tx.run("save_run", key, id, 0, 0, None, None, None, None, None, None)
    return key, 0, 0


async def _runs(into: Into, rows: list[Row]) -> None:
    tx, head = into.tx, await into.head(rows[0][0])
    before = head.runs
    for _, id, body in rows:
        key, first, last = await _place_run(tx, head, id)
        run = read_run(id, body)
        seal = seal_of(key, id, into.tenant, run.status, run.parent_run, run.created_us, body)
        told = (into.tenant, run.status, run.parent_run, run.created_us, body, seal)
        await tx.run("save_run", key, id, first, last, *told)
    if head.runs != before:
        await tx.run("import_run_count", head.number, head.runs)


async def _kept_runs(into: Into, rows: list[Row]) -> None:
    for id, session, body in rows:
        run = read_run(id, body)
        told = (run.status, run.parent_run, run.created_us, body)
        await into.tx.run("import_kept_run", into.tenant, id, session, *told)


async def _amendments(into: Into, rows: list[Row]) -> None:
    base = base_of(await into.head(rows[0][0]))
    made = [(base + ord, *rest) for _, ord, *rest in rows]
    await into.tx.many("insert_amendment", made)


async def _tickets(into: Into, rows: list[Row]) -> None:
    head = await into.head(rows[0][0])
    for _, id, body in rows:
        one = ticket_rules.read(id, body)
        told = (one.run_id, one.status, one.reason, one.created_us, one.expires_us, body)
        await into.tx.run("put_ticket", into.tenant, id, head.number, *told)


async def _executions(into: Into, rows: list[Row]) -> None:
    head = await into.head(rows[0][0])
    for _, id, body in rows:
        one = execution_rules.read(id, body)
        what = (one.call_id, one.message_id, one.run_id, one.ticket, one.status, one.fence)
        place = (into.tenant, id, head.number)
        await into.tx.run("put_execution", *place, *what, one.created_us, body)


async def _work(into: Into, rows: list[Row]) -> None:
    number, now_us = (await into.head(rows[0][0])).number, into.tx.now_us
    made = [(number, int(row[9] > now_us), *row[1:]) for row in rows]
    await into.tx.many("import_batch", made)


async def _dead_work(into: Into, rows: list[Row]) -> None:
    number = (await into.head(rows[0][0])).number
    made = [(into.tenant, id, number, *rest) for _, id, *rest in rows]
    await into.tx.many("put_dead", made)


async def _usage_days(into: Into, rows: list[Row]) -> None:
    number = (await into.head(rows[0][0])).number
    await into.tx.many("begin_usage_day", [(number, *row[1:], into.tenant) for row in rows])


async def _ready(into: Into, rows: list[Row]) -> None:
    number = (await into.head(rows[0][0])).number
    made = [(number, queue, into.tenant, *rest) for _, queue, *rest in rows]
    await into.tx.many("raise_ready", made)


async def _turns(into: Into, rows: list[Row]) -> None:
    """Commits, each of any session, in the order of the feed."""
    made, deleted = [], []
    for session, *rest, digest in rows:
        number = (await into.head(session)).number
        made.append((number, *rest))
        if digest is not None:
            deleted.append((number, rest[0], digest))
    await into.tx.many("insert_turn", made)
    if deleted:
        await into.tx.many("drop_turn_usage", deleted)


async def _artifacts(into: Into, rows: list[Row]) -> None:
    made = [
        (into.tenant, id, scope, name, version, place, *rest)
        for scope, place, id, name, version, *rest in rows
    ]
    await into.tx.many("insert_artifact", made)


async def _budgets(into: Into, rows: list[Row]) -> None:
    for id, body, *spent in rows:
        budget = usage_rules.read_budget(id, body)
        whose = (budget.scope, usage_rules.subject_of(budget))
        await into.tx.run("insert_budget", into.tenant, id, *whose, body, *spent)


async def _blobs(into: Into, rows: list[Row]) -> None:
    """The times of blobs whose bytes were put before; CopyConflict when they are not there."""
    for row in rows:
        if not await into.tx.run("import_blob_times", into.tenant, *row):
            raise CopyConflict(BLOBS.name, row[0], into.tenant)


_Import = Callable[[Into, list[Row]], Coroutine[Any, Any, None]]


def _of_tenant(statement: str) -> _Import:
    """Rows whose columns are those of the statement, after the tenant."""

    async def write(into: Into, rows: list[Row]) -> None:
        await into.tx.many(statement, [(into.tenant, *row) for row in rows])

    return write


def _of_session(statement: str) -> _Import:
    """The same after the number of the session."""

    async def write(into: Into, rows: list[Row]) -> None:
        number = (await into.head(rows[0][0])).number
        await into.tx.many(statement, [(number, *row[1:]) for row in rows])

    return write


_IMPORTS: dict[str, _Import] = {
    "stubs": _of_tenant("put_stub"),
    "kept_runs": _kept_runs,
    "memories": _of_tenant("put_memory"),
    "spaces": _of_tenant("put_space"),
    "embeddings": _of_tenant("put_vector"),
    "sessions": _sessions,
    "attachments": _of_tenant("import_attachment"),
    "artifacts": _artifacts,
    "evidence": _of_tenant("insert_evidence"),
    "budgets": _budgets,
    "blobs": _blobs,
    "turns": _turns,
    "nodes": _nodes,
    "amendments": _amendments,
    "branches": _of_session("put_branch"),
    "notes": _of_session("keep_note"),
    "contents": _of_session("put_value"),
    "documents": _of_session("put_document"),
    "runs": _runs,
    "tickets": _tickets,
    "executions": _executions,
    "work": _work,
    "dead_work": _dead_work,
    "call_sums": _of_session("add_call_sums"),
    "usage_days": _usage_days,
    "ready": _ready,
}
