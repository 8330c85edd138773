"""Moving a store, into it: canonical rows become rows of these tables, never over others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone.commands.transfer import Chunk, ImportRows, Row
from ledgerstone.errors import CopyConflict, Corrupt, InvalidValue, SessionNotFound
from ledgerstone.handlers.heads import save_head
from ledgerstone.handlers.nodes import add_nodes, taken_node
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.runs import read_run
from ledgerstone.handlers.transfer_out import session_rows, tenant_rows
from ledgerstone.records.sessions import SESSION_FIELDS
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import tickets as ticket_rules
from ledgerstone.rules import usage as usage_rules
from ledgerstone.rules.rows import RECENCY_SHIFT
from ledgerstone.rules.transfer import (
    BLOBS,
    HEAD,
    OF_A_TENANT,
    SESSIONS,
    TABLES,
    TURNS,
    by_owner,
)
from ledgerstone.tables import blobs as blob_tables
from ledgerstone.tables import sessions as session_tables
from ledgerstone.tables.graph import TURNS_BY_REVISION, NodeRow
from ledgerstone.tables.runs import RUNS, RUNS_BY_ID, RunRow
from ledgerstone.tables.schema import BY_NAME
from ledgerstone.tables.sessions import HEADS, SESSIONS_BY_ID, Head, SessionRow
from ledgerstone.tables.table import Key
from ledgerstone.tables.transaction import Tx

Fields = dict[str, Any]

_TENANT = {table.name for table in OF_A_TENANT}


@handles(ImportRows)
async def import_rows(tx: Tx, command: ImportRows) -> int:
    target = ImportTarget(tx, command.tenant)
    waiting: dict[str, list[Row]] = {}
    count = 0
    for chunk in command.chunks:
        if chunk.table not in TABLES:
            raise InvalidValue("table", f"nobody knows {chunk.table!r}")
        await target.meet(chunk)
        for piece in _pieces(target, chunk):
            if await _is_repeat(target, piece):
                continue
            count += len(piece.rows)
            if piece.table == SESSIONS.name:
                target.make_sessions(piece.rows)
            else:
                waiting.setdefault(piece.table, []).extend(piece.rows)
    for table, rows in waiting.items():
        await _write(target, table, rows)
    await target.save()
    return count


class RunPlace(msgspec.Struct):
    """A session's row of a run while its nodes and its record come in."""

    row: RunRow
    first_ord: int
    last_ord: int
    record: bytes | None = None

    def wrote(self, ord: int) -> int:
        """Note a node of the run; answers the run's number."""
        self.first_ord = self.first_ord or ord
        self.last_ord = ord
        return self.row.n

    def changed(self, tenant: str) -> RunRow:
        """The row as it is to be stored."""
        row = replace(self.row, first_ord=self.first_ord, last_ord=self.last_ord)
        if self.record is None:
            return row
        return replace(row, tenant=tenant, body=self.record, **_run_columns(row.id, self.record))


class ImportTarget:
    """The tenant that rows of one command go to: its sessions, and what is written at the end.

    `made` are the sessions that the command makes; nothing of them is there yet.
    """

    def __init__(self, tx: Tx, tenant: str) -> None:
        self.tx = tx
        self.tenant = tenant
        self.numbers: dict[str, int] = {}
        self.made: set[str] = set()
        self._heads: dict[int, Head] = {}
        self._runs: dict[Key, RunPlace] = {}

    async def meet(self, chunk: Chunk) -> None:
        """Find the sessions that rows belong to; SessionNotFound."""
        if chunk.table in _TENANT and chunk.table != TURNS.name:
            return
        for id in dict.fromkeys(row[0] for row in chunk.rows):
            if id not in self.numbers:
                row = await self.tx.find(SESSIONS_BY_ID, self.tenant, id)
                if row is None:
                    raise SessionNotFound(id)
                self.numbers[id] = row.number

    def make_sessions(self, rows: list[Row]) -> None:
        """Store new sessions; their heads wait until the runs were counted."""
        for row in rows:
            fields = dict(zip(SESSIONS.columns, row, strict=True))
            number, updated_us = self.tx.number(), fields["updated_us"]
            given = {name: fields[name] for name in ("id", *SESSION_FIELDS)}
            recency = updated_us >> RECENCY_SHIFT
            made = SessionRow(number=number, tenant=self.tenant, recency=recency, **given)
            self.tx.put(session_tables.SESSIONS, made)
            moved = {name: fields[name] for name in ("incarnation", "deleted_us", *HEAD)}
            self._heads[number] = Head(number, touched_us=updated_us, **moved)
            self.numbers[made.id] = number
            self.made.add(made.id)

    async def run(self, session: str, id: str) -> RunPlace:
        """The session's row of a run; a new one gets the next number."""
        number = self.numbers[session]
        place = self._runs.get((number, id))
        if place is None:
            row = None if session in self.made else await self.tx.find(RUNS_BY_ID, id, number)
            if row is None:
                head = await self._head(number)
                head.runs += 1
                row = RunRow(number, head.runs, id)
            place = self._runs[number, id] = RunPlace(row, row.first_ord, row.last_ord)
        return place

    async def _head(self, number: int) -> Head:
        """A head that will be saved."""
        if number not in self._heads:
            head = await self.tx.get(HEADS, number)
            if head is None:
                raise Corrupt("sessions", str(number), "number", "its head is not there")
            self._heads[number] = copy(head)
        return self._heads[number]

    async def save(self) -> None:
        """Store what could only be written when all rows had come: heads, and rows of runs."""
        for place in self._runs.values():
            self.tx.put(RUNS, place.changed(self.tenant))
        for head in self._heads.values():
            save_head(self.tx, head)

    def conflict(self, table: str, row: Row) -> CopyConflict:
        """The refusal of rows where others are."""
        return CopyConflict(table, " ".join(map(str, TABLES[table].key_of(row))), self.tenant)


def _pieces(target: ImportTarget, chunk: Chunk) -> Iterable[Chunk]:
    """Rows of sessions that were there before are compared session by session."""
    if chunk.table in _TENANT or target.made.issuperset(row[0] for row in chunk.rows):
        return [chunk] if chunk.rows else []
    return by_owner(chunk)


async def _is_repeat(target: ImportTarget, chunk: Chunk) -> bool:
    """Whether these very rows are there; CopyConflict when others are."""
    table, rows = chunk.table, chunk.rows
    if table == BLOBS.name or not TABLES[table].rooted:
        return False
    if table == SESSIONS.name:
        return await _is_known_session(target, rows)
    if table in _TENANT and table != TURNS.name:
        found = await tenant_rows(target.tx, target.tenant, table, chunk.after, len(rows))
    elif rows[0][0] in target.made:
        return False
    elif table == TURNS.name:
        return await _is_known_turn(target, rows[0])
    else:
        place = (target.tenant, rows[0][0], target.numbers[rows[0][0]])
        found = await session_rows(target.tx, *place, table, chunk.after, len(rows))
    if found and found != rows:
        raise target.conflict(table, found[0])
    return bool(found)


async def _is_known_session(target: ImportTarget, rows: list[Row]) -> bool:
    """The first one decides: known and unknown ones come apart."""
    tx, row = target.tx, rows[0]
    stored = await tx.fresh(SESSIONS_BY_ID, ((target.tenant, one[0]) for one in rows))
    if stored is None:
        return False
    fields = dict(zip(SESSIONS.columns, row, strict=True))
    head = await tx.get(HEADS, stored.number) if stored.id == row[0] else None
    names = ("incarnation", "revision", "fence", "link")
    if head is None or any(getattr(head, name) != fields[name] for name in names):
        raise target.conflict(SESSIONS.name, row)
    return True


async def _is_known_turn(target: ImportTarget, row: Row) -> bool:
    stored = await target.tx.find(TURNS_BY_REVISION, target.numbers[row[0]], row[1])
    if stored is not None and stored.link != row[5]:
        raise target.conflict(TURNS.name, row)
    return stored is not None


async def _write(target: ImportTarget, table: str, rows: list[Row]) -> None:
    """Rows that are not there."""
    if table == BLOBS.name:
        await _write_blobs(target, rows)
    elif table == "nodes":
        await _write_nodes(target, rows)
    elif table == "runs":
        for session, id, body in rows:
            (await target.run(session, id)).record = body
    else:
        if table in ("tickets", "executions"):
            await _check_ids(target, table, rows)
        stored, more = BY_NAME[table], _MORE.get(table)
        made = []
        for row in rows:
            fields = _fields(target, table, row)
            if more is not None:
                fields |= more(target, fields)
            made.append(stored.row(**fields))
        if TABLES[table].rooted:
            target.tx.insert(stored, made)
        else:  # Nobody looked whether they are there.
            for one in made:
                target.tx.put(stored, one)


def _fields(target: ImportTarget, table: str, row: Row) -> Fields:
    """A canonical row by the columns of its table."""
    fields, stored = dict(zip(TABLES[table].columns, row, strict=True)), BY_NAME[table]
    if stored.owner is not None:
        fields["number"] = target.numbers[fields.pop("session")]
    if stored.tenant:
        fields["tenant"] = target.tenant
    return fields


async def _check_ids(target: ImportTarget, table: str, rows: list[Row]) -> None:
    """CopyConflict when an id belongs to a session that is there; purged ones do not count."""
    keys = [(target.tenant, row[1]) for row in rows]
    for row, old in zip(rows, await target.tx.get_many(BY_NAME[table], keys), strict=True):
        if old is not None and await target.tx.get(session_tables.SESSIONS, old.number):
            raise target.conflict(table, row)


async def _write_nodes(target: ImportTarget, rows: list[Row]) -> None:
    """Nodes, and the session's own numbers of the runs that wrote them."""
    made: list[NodeRow] = []
    ids: dict[int, list[str]] = {}
    for row in rows:
        fields = _fields(target, "nodes", row)
        if fields["run"] is not None:
            place = await target.run(row[0], fields["run"])
            fields["run"] = place.wrote(fields["ord"])
        if fields["role"] is not None:
            fields["kind"], fields["label"] = None, fields["label"] or None
        fields["refs"] = fields["refs"] or None
        made.append(NodeRow(**fields))
        ids.setdefault(fields["number"], []).append(fields["id"])
    there = {target.numbers[id] for id in target.made}
    for number, names in ids.items():
        taken = number not in there and await taken_node(target.tx, number, names)
        if taken or len(set(names)) < len(names):
            raise target.conflict("nodes", rows[0])
    add_nodes(target.tx, made)


async def _write_blobs(target: ImportTarget, rows: list[Row]) -> None:
    """The times of blobs whose bytes were put before; CopyConflict when they are not there."""
    stored = blob_tables.BLOBS
    found = await target.tx.get_many(stored, [(target.tenant, row[0]) for row in rows])
    for row, blob in zip(rows, found, strict=True):
        _, size_bytes, media_type, created_us, touched_us = row
        if blob is None or blob.size_bytes != size_bytes:
            raise target.conflict(BLOBS.name, row)
        times = {"created_us": created_us, "touched_us": touched_us}
        target.tx.put(stored, replace(blob, media_type=media_type, **times))


def _run_columns(id: str, body: bytes) -> Fields:
    run = read_run(id, body)
    return {"status": run.status, "parent_run": run.parent_run, "created_us": run.created_us}


def _ticket_columns(target: ImportTarget, fields: Fields) -> Fields:
    return ticket_rules.columns(ticket_rules.read(fields["id"], fields["body"]))


def _execution_columns(target: ImportTarget, fields: Fields) -> Fields:
    return execution_rules.columns(execution_rules.read(fields["id"], fields["body"]))


def _budget_columns(target: ImportTarget, fields: Fields) -> Fields:
    budget = usage_rules.read_budget(fields["id"], fields["body"])
    return {"scope": budget.scope, "subject": usage_rules.subject_of(budget)}


_MORE: dict[str, Callable[[ImportTarget, Fields], Fields]] = {
    "turns": lambda target, fields: {"pos": 0},
    "notes": lambda target, fields: {"refs": fields["refs"] or None},
    "work": lambda target, fields: {"later": int(fields["available_us"] > target.tx.now_us)},
    "kept_runs": lambda target, fields: _run_columns(fields["id"], fields["body"]),
    "tickets": _ticket_columns,
    "executions": _execution_columns,
    "budgets": _budget_columns,
}
"""Columns that follow from the canonical ones."""
