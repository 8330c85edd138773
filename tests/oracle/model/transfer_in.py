"""Moving a store, into it: canonical rows become rows of these tables, never over others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import msgspec
from msgspec.structs import replace

from ledgerstone.commands.evidence import EvidenceRow
from ledgerstone.commands.transfer import (
    Chunk,
    ExportTable,
    ImportRows,
    IsCopyUnfinished,
    MarkCopy,
    Row,
)
from ledgerstone.errors import CopyConflict, InvalidValue, SessionNotFound
from ledgerstone.handlers.tenants import COPY_MARK, UNFINISHED
from ledgerstone.records.blobs import Attachment
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.records.reports import Defect
from ledgerstone.records.sessions import Cause
from ledgerstone.rules import artifacts as artifact_rules
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import tickets as ticket_rules
from ledgerstone.rules import usage as usage_rules
from ledgerstone.rules.rows import GENESIS, HeadRow, UsageDay
from ledgerstone.rules.transfer import (
    BLOBS,
    OF_A_TENANT,
    SESSIONS,
    TABLES,
    TURNS,
    by_owner,
    unfinished_copy,
)
from ledgerstone.rules.work import WorkRow
from tests.oracle.model import artifacts, attachments
from tests.oracle.model.feed import enter_turn
from tests.oracle.model.ready import put_ready
from tests.oracle.model.rows import (
    AmendmentRow,
    CallSums,
    DeadRow,
    MemoryRow,
    NodeRow,
    NoteRow,
    ReadyRow,
    RunRow,
    SessionRow,
    Spent,
    StubRow,
    TurnRow,
)
from tests.oracle.model.runs import read_run
from tests.oracle.model.state import Tx
from tests.oracle.model.ticket_marks import execution_marks, put_marks, ticket_marks
from tests.oracle.model.transfer import NO_METADATA, STANDING, export_table, session_rows
from tests.oracle.model.work_rows import put_row

_TENANT = {table.name for table in OF_A_TENANT}
_ANY_BYTES = 1 << 62
NOWHERE = 0
"""The number that a run has whose session is gone."""


def import_rows(tx: Tx, command: ImportRows) -> int:
    """Write what is not there yet; how many rows."""
    written = 0
    for chunk in command.chunks:
        write = _IMPORTS.get(chunk.table)
        if write is None:
            raise InvalidValue("table", f"nobody knows {chunk.table!r}")
        for piece in _pieces(chunk):
            if not _is_repeat(tx, command.tenant, piece):
                for row in piece.rows:
                    write(tx, command.tenant, row)
                written += len(piece.rows)
    return written


def mark_copy(tx: Tx, command: MarkCopy) -> None:
    """The mark stands from before the first row until both stores were compared."""
    key = (command.tenant, COPY_MARK)
    if command.ended and key in tx.state.stubs:
        tx.state.stubs.delete(key)
    elif not command.ended:
        tx.state.stubs.put(key, StubRow(UNFINISHED, 0, "", False))


def is_copy_unfinished(tx: Tx, query: IsCopyUnfinished) -> bool:
    """Whether the mark is there."""
    return (query.tenant, COPY_MARK) in tx.state.stubs


def check_copy(tx: Tx, tenant: str) -> list[Defect]:
    """The tenant is no target of a copy that has not ended."""
    found = is_copy_unfinished(tx, IsCopyUnfinished(tenant=tenant))
    return [unfinished_copy()] if found else []


def _pieces(chunk: Chunk) -> Iterable[Chunk]:
    """A session's rows are compared on their own; those of the tenant all at once."""
    if chunk.table in _TENANT:
        return [chunk] if chunk.rows else []
    return by_owner(chunk)


def _is_repeat(tx: Tx, tenant: str, chunk: Chunk) -> bool:
    """Whether these very rows are there; CopyConflict when others are."""
    if chunk.table == BLOBS.name or not TABLES[chunk.table].rooted:
        return False
    first, count = chunk.rows[0], len(chunk.rows)
    if chunk.table == TURNS.name:
        known = tx.state.turns.get((_number(tx, tenant, first[0]), first[1]))
        if known is not None and known.link != first[5]:
            raise _conflict(tenant, chunk.table, first)
        return known is not None
    if chunk.table == SESSIONS.name:
        return _is_known_session(tx, tenant, first)
    if chunk.table in _TENANT:
        query = ExportTable(
            tenant=tenant,
            table=chunk.table,
            after=chunk.after,
            rows_max=count,
            bytes_max=_ANY_BYTES,
        )
        found = export_table(tx, query).rows
    else:
        _number(tx, tenant, first[0])
        rows = session_rows(tx, tenant, first[0], chunk.table, chunk.after)
        found = list(islice(rows, count))
    if found and found != chunk.rows:
        raise _conflict(tenant, chunk.table, found[0])
    return bool(found)


def _is_known_session(tx: Tx, tenant: str, row: Row) -> bool:
    found = tx.state.sessions.get((tenant, row[0]))
    if found is None:
        return False
    head = tx.state.heads[(found.number,)]
    field = dict(zip(SESSIONS.columns, row, strict=True))
    told = (field["incarnation"], field["revision"], field["fence"], field["link"])
    if (head.incarnation, head.revision, head.fence, head.link) == told:
        return True
    raise _conflict(tenant, SESSIONS.name, row)


def _conflict(tenant: str, table: str, row: Row) -> CopyConflict:
    return CopyConflict(table, " ".join(map(str, TABLES[table].key_of(row))), tenant)


def _number(tx: Tx, tenant: str, session: str) -> int:
    found = tx.state.sessions.get((tenant, session))
    if found is None:
        raise SessionNotFound(session)
    return found.number


def _stub(tx: Tx, tenant: str, row: Row) -> None:
    id, incarnation, fence, link, retired = row
    told = "" if link == GENESIS else link.hex()
    tx.state.stubs.insert((tenant, id), StubRow(incarnation, fence, told, bool(retired)))


def _kept_run(tx: Tx, tenant: str, row: Row) -> None:
    id, session, body = row
    tx.state.runs.insert((tenant, id), RunRow(NOWHERE, session, body))


def _memory(tx: Tx, tenant: str, row: Row) -> None:
    namespace, key, value, ttl_us, created_us, updated_us, expires_us = row
    made = MemoryRow(
        value=value,
        ttl_us=ttl_us,
        created_us=created_us,
        updated_us=updated_us,
        expires_us=expires_us,
    )
    tx.state.memories.insert((tenant, namespace, key), made)
    if expires_us is not None:
        tx.state.memory_expiry.insert((tenant, expires_us, namespace, key), None)


def _space(tx: Tx, tenant: str, row: Row) -> None:
    fields = dict(zip(Space.__struct_fields__, row, strict=True))
    tx.state.spaces.insert((tenant, row[0]), Space(**fields))


def _embedding(tx: Tx, tenant: str, row: Row) -> None:
    made = VectorRow(**dict(zip(VectorRow.__struct_fields__, row, strict=True)))
    state, name = tx.state, (made.kind, made.id)
    state.embeddings.insert((tenant, *name), made)
    state.embedding_changes.insert((tenant, made.model, made.change), name)
    if made.session is not None:
        state.embedding_sessions.insert((tenant, made.session, *name), None)


def _session(tx: Tx, tenant: str, row: Row) -> None:
    field = dict(zip(SESSIONS.columns, row, strict=True))
    number, metadata, cause = tx.state.next_number("session"), field["metadata"], field["cause"]
    made = SessionRow(
        number=number,
        user=field["user"],
        app=field["app"],
        title=field["title"],
        model=field["model"],
        cwd=field["cwd"],
        status=field["status"],
        metadata=NO_METADATA if metadata is None else metadata,
        parent=field["parent"],
        cause=None if cause is None else msgspec.json.decode(cause, type=Cause),
        created_us=field["created_us"],
    )
    told = {name: field[name] for name in STANDING}
    head = HeadRow(number, field["incarnation"], field["deleted_us"], **told)
    tx.state.sessions.insert((tenant, field["id"]), made)
    tx.state.session_ids.insert((number,), field["id"])
    tx.state.heads.insert((number,), head)
    if field["enqueued"]:
        tx.state.counters.put(("work", number), field["enqueued"])


def _attachment(tx: Tx, tenant: str, row: Row) -> None:
    attachments.add(tx, tenant, Attachment(*row))


def _artifact(tx: Tx, tenant: str, row: Row) -> None:
    scope, place, id, name, version, uri, ref, size_bytes, created_us, body = row
    made = artifact_rules.read(id, scope, name, version, uri, ref, size_bytes, created_us, body)
    artifacts.insert(tx, (tenant, scope, place), made)


def _evidence(tx: Tx, tenant: str, row: Row) -> None:
    session, kind, n, created_us, body = row
    tx.state.evidence.insert((tenant, session, kind, n), EvidenceRow(n, created_us, body))


def _budget(tx: Tx, tenant: str, row: Row) -> None:
    id, body, *spent = row
    budget = usage_rules.read_budget(id, body)
    subject = (tenant, budget.scope, usage_rules.subject_of(budget), id)
    tx.state.budgets.insert((tenant, id), budget)
    tx.state.budget_subjects.insert(subject, None)
    tx.state.budget_spent.insert((tenant, id), Spent(*spent))


def _blob(tx: Tx, tenant: str, row: Row) -> None:
    """The times of a blob whose bytes were put before."""
    ref, size_bytes, media_type, created_us, touched_us = row
    stored = tx.state.blobs.get((tenant, ref))
    if stored is None or stored.size_bytes != size_bytes:
        raise _conflict(tenant, BLOBS.name, row)
    times = {"created_us": created_us, "touched_us": touched_us}
    tx.state.blobs.update((tenant, ref), replace(stored, media_type=media_type, **times))


def _turn(tx: Tx, tenant: str, row: Row) -> None:
    session, *rest = row
    made = TurnRow(**dict(zip(TURNS.columns[1:], rest, strict=True)))
    enter_turn(tx, _number(tx, tenant, session), made)


def _node(tx: Tx, tenant: str, row: Row) -> None:
    field = dict(zip(TABLES["nodes"].columns, row, strict=True))
    number = _number(tx, tenant, field.pop("session"))
    made = NodeRow(run_id=field.pop("run"), **field)
    tx.state.nodes.insert((number, made.ord), made)
    tx.state.node_ids.insert((tenant, made.id, number), made.ord)


def _amendment(tx: Tx, tenant: str, row: Row) -> None:
    session, ord, version, revision, created_us, salt, patch, commitment = row
    made = AmendmentRow(
        patch=patch, salt=salt, revision=revision, commitment=commitment, created_us=created_us
    )
    tx.state.amendments.insert((_number(tx, tenant, session), ord, version), made)


def _branch(tx: Tx, tenant: str, row: Row) -> None:
    tx.state.branches.insert((_number(tx, tenant, row[0]), row[1]), row[2])


def _note(tx: Tx, tenant: str, row: Row) -> None:
    session, node, key, format, refs, created_us, body = row
    made = NoteRow(body, format, refs, created_us)
    tx.state.notes.insert((_number(tx, tenant, session), node, key), made)


def _content(tx: Tx, tenant: str, row: Row) -> None:
    tx.state.values.insert((_number(tx, tenant, row[0]), row[1]), row[2])


def _document(tx: Tx, tenant: str, row: Row) -> None:
    tx.state.documents.insert((_number(tx, tenant, row[0]), row[1]), row[2])


def _run(tx: Tx, tenant: str, row: Row) -> None:
    session, id, body = row
    made = RunRow(_number(tx, tenant, session), session, body)
    run = read_run(id, made)
    tx.state.runs.insert((tenant, id), made)
    tx.state.session_runs.insert((made.number, id), (run.updated_us, run.created_us))


def _ticket(tx: Tx, tenant: str, row: Row) -> None:
    number, id, body = _number(tx, tenant, row[0]), row[1], row[2]
    tx.state.tickets.insert((number, id), body)
    put_marks(ticket_marks(tx.state, tenant, number, ticket_rules.read(id, body)))


def _execution(tx: Tx, tenant: str, row: Row) -> None:
    number, id, body = _number(tx, tenant, row[0]), row[1], row[2]
    tx.state.executions.insert((number, id), body)
    put_marks(execution_marks(tx.state, tenant, number, execution_rules.read(id, body)))


def _batch(tx: Tx, tenant: str, row: Row) -> None:
    put_row(tx, _number(tx, tenant, row[0]), WorkRow(*row[1:]))


def _dead_batch(tx: Tx, tenant: str, row: Row) -> None:
    number, id = _number(tx, tenant, row[0]), row[1]
    tx.state.dead_work.insert((number, id), DeadRow(*row[2:]))
    tx.state.dead_ids.insert((tenant, id, number), None)


def _calls(tx: Tx, tenant: str, row: Row) -> None:
    tx.state.call_sums.insert((_number(tx, tenant, row[0]),), CallSums(*row[1:]))


def _usage_day(tx: Tx, tenant: str, row: Row) -> None:
    session, day, model, provider, source, currency, *counts = row
    key = (tenant, _number(tx, tenant, session), day, model, provider, source, currency)
    tx.state.usage_days.insert(key, UsageDay(*counts))


def _place(tx: Tx, tenant: str, row: Row) -> None:
    session, queue, priority, due_us = row
    put_ready(tx, _number(tx, tenant, session), queue, ReadyRow(tenant, priority, due_us))


_IMPORTS: dict[str, Callable[[Tx, str, Row], None]] = {
    "stubs": _stub,
    "kept_runs": _kept_run,
    "memories": _memory,
    "spaces": _space,
    "embeddings": _embedding,
    "sessions": _session,
    "attachments": _attachment,
    "artifacts": _artifact,
    "evidence": _evidence,
    "budgets": _budget,
    "blobs": _blob,
    "turns": _turn,
    "nodes": _node,
    "amendments": _amendment,
    "branches": _branch,
    "notes": _note,
    "contents": _content,
    "documents": _document,
    "runs": _run,
    "tickets": _ticket,
    "executions": _execution,
    "work": _batch,
    "dead_work": _dead_batch,
    "call_sums": _calls,
    "usage_days": _usage_day,
    "ready": _place,
}
