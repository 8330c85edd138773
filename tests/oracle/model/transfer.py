"""Moving a store, out of it: rows of every table in their canonical form, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import astuple

from ledgerstone.codec import encode_struct
from ledgerstone.commands.transfer import (
    Chunk,
    Exported,
    ExportedSessions,
    ExportSessions,
    ExportTable,
    Row,
)
from ledgerstone.errors import InvalidValue
from ledgerstone.handlers.tenants import UNFINISHED
from ledgerstone.rules import artifacts as artifact_rules
from ledgerstone.rules import usage as usage_rules
from ledgerstone.rules.rows import GENESIS, HeadRow
from ledgerstone.rules.transfer import (
    HEAD,
    IN_OWN_ORDER,
    OF_A_SESSION,
    TABLES,
    TURNS,
)
from tests.oracle.model.rows import SessionRow
from tests.oracle.model.state import State, Tx
from tests.oracle.model.tables import Table

NO_METADATA = b"null"
STANDING = HEAD[:-1]
_ORDER = [table.name for table in OF_A_SESSION if table.name not in ("ended_work", "work_sums")]
_ROW_BYTES = 200

Rows = Iterator[Row]


def export_table(tx: Tx, query: ExportTable) -> Exported:
    """A page of what belongs to the tenant."""
    if query.table in IN_OWN_ORDER:
        read_own = _turns if query.table == TURNS.name else _sessions
        return _numbered(read_own(tx.state, query.tenant, query.after or (0,)), query)
    read = _TENANT.get(query.table)
    if read is None:
        raise InvalidValue("table", f"{query.table!r} is none of a tenant")
    rows = read(tx.state, query.tenant, query.after or ())
    page, more = _page(rows, query.rows_max, query.bytes_max)
    return Exported(page, TABLES[query.table].key_of(page[-1]) if more else None)


def export_sessions(tx: Tx, query: ExportSessions) -> ExportedSessions:
    """A page of what belongs to sessions, table by table."""
    chunks: list[Chunk] = []
    rows_left, bytes_left = query.rows_max, query.bytes_max
    for name in _ORDER[0 if query.table is None else _ORDER.index(query.table) :]:
        after = query.after if name == query.table else None
        rows = _rows_of(tx, query, name, after)
        page, more = _page(rows, rows_left, bytes_left)
        if page:
            chunks.append(Chunk(name, page, after))
        if more:
            return ExportedSessions(chunks, 0, name, TABLES[name].key_of(page[-1]))
        rows_left -= len(page)
        bytes_left -= sum(map(_size, page))
        if (rows_left <= 0 or bytes_left <= 0) and name != _ORDER[-1]:
            return ExportedSessions(chunks, 0, _ORDER[_ORDER.index(name) + 1])
    return ExportedSessions(chunks, len(query.sessions))


def _rows_of(tx: Tx, query: ExportSessions, table: str, after: Row | None) -> Rows:
    """Rows of several sessions, after one of them."""
    names = query.sessions[query.sessions.index(after[0]) if after else 0 :]
    for session in names:
        if (query.tenant, session) in tx.state.sessions:
            yield from session_rows(tx, query.tenant, session, table, after)
        after = None


def session_rows(tx: Tx, tenant: str, session: str, table: str, after: Row | None) -> Rows:
    """Rows of a session after a key; where the session is the whole key, none come after it."""
    if after == (session,):
        return
    number = tx.state.sessions[tenant, session].number
    for row in _SESSION[table](tx.state, tenant, number, after[1:] if after else ()):
        yield (session, *row)


def _page(rows: Rows, rows_max: int, bytes_max: int) -> tuple[list[Row], bool]:
    """Rows that fit, at least one, and whether there are more."""
    page: list[Row] = []
    total = 0
    for row in rows:
        total += _size(row)
        if page and (len(page) >= rows_max or total > bytes_max):
            return page, True
        page.append(row)
    return page, False


def _size(row: Row) -> int:
    return _ROW_BYTES + sum(len(value) for value in row if type(value) is bytes)


def _scan(table: Table[Any, Any], prefix: Row, after: Row) -> Iterator[tuple[Row, Any]]:
    """Rows below a prefix that come after a key."""
    last = (*prefix, *after)
    for key, row in table.scan(prefix, since=last):
        if not after or key != last:
            yield key[len(prefix) :], row


def _numbered(rows: Iterator[tuple[int, Row]], query: ExportTable) -> Exported:
    """A page of rows that come each with the number it is found by."""
    found: list[Row] = []
    total = last = 0
    for number, row in rows:
        total += _size(row)
        if found and (len(found) >= query.rows_max or total > query.bytes_max):
            return Exported(found, (last,))
        found.append(row)
        last = number
    return Exported(found)


def _turns(state: State, tenant: str, after: Row) -> Iterator[tuple[int, Row]]:
    """In the order of the feed."""
    for (pos,), (number, revision) in state.feed.scan(since=(after[0] + 1,)):
        session = state.session_ids.get((number,))
        if session is None or not _owns(state, tenant, session, number):
            continue
        turn = state.turns[number, revision]
        stamp = (turn.revision, turn.id, turn.kind, turn.hash, turn.link, turn.created_us)
        place = (turn.leaf, turn.first_ord, turn.count, turn.usage, turn.effects)
        yield pos, (session, *stamp, *place, turn.usage_digest)


def _owns(state: State, tenant: str, session: str, number: int) -> bool:
    """Whether it is this tenant's session: the same id may be one of another tenant, too."""
    row = state.sessions.get((tenant, session))
    return row is not None and row.number == number


def _stubs(state: State, tenant: str, after: Row) -> Rows:
    for key, row in _scan(state.stubs, (tenant,), after):
        if row.incarnation != UNFINISHED:
            link = bytes.fromhex(row.link) or GENESIS
            yield (*key, row.incarnation, row.fence, link, int(row.retired))


def _kept_runs(state: State, tenant: str, after: Row) -> Rows:
    for (id,), row in _scan(state.runs, (tenant,), after):
        if (row.number, id) not in state.session_runs:
            yield id, row.session, row.data


def _sessions(state: State, tenant: str, after: Row) -> Iterator[tuple[int, Row]]:
    """Oldest first."""
    for (number,), id in state.session_ids.scan(since=(after[0] + 1,)):
        if _owns(state, tenant, id, number):
            row, head = state.sessions[tenant, id], state.heads[(number,)]
            enqueued = state.counters.get(("work", number)) or 0
            standing = (getattr(head, name) for name in STANDING)
            yield number, (*_given(id, row, head), *standing, enqueued)


def _given(id: str, row: SessionRow, head: HeadRow) -> Row:
    metadata = None if row.metadata == NO_METADATA else row.metadata
    cause = None if row.cause is None else encode_struct(row.cause, "cause")
    texts = (row.user, row.app, row.title, row.model, row.cwd, row.status, metadata, row.parent)
    return (id, head.incarnation, *texts, cause, row.created_us, head.deleted_us)


def _plain(name: str) -> Callable[[State, str, Row], Rows]:
    """A table whose rows are their key and their fields."""

    def read(state: State, tenant: str, after: Row) -> Rows:
        for key, row in _scan(getattr(state, name), (tenant,), after):
            yield (*key, *astuple(row))

    return read


def _spaces(state: State, tenant: str, after: Row) -> Rows:
    for _, row in _scan(state.spaces, (tenant,), after):
        yield astuple(row)


def _embeddings(state: State, tenant: str, after: Row) -> Rows:
    for _, row in _scan(state.embeddings, (tenant,), after):
        yield astuple(row)


def _blobs(state: State, tenant: str, after: Row) -> Rows:
    for _, row in _scan(state.blobs, (tenant,), after):
        yield row.ref, row.size_bytes, row.media_type, row.created_us, row.touched_us


def _attachments(state: State, tenant: str, after: Row) -> Rows:
    for _, row in _scan(state.attachments, (tenant,), after):
        yield astuple(row)


def _artifacts(state: State, tenant: str, after: Row) -> Rows:
    for key, row in _scan(state.artifacts, (tenant,), after):
        what = (row.id, row.name, row.version, row.uri, row.ref, row.size_bytes, row.created_us)
        yield (*key, *what, artifact_rules.encode(row))


def _evidence(state: State, tenant: str, after: Row) -> Rows:
    for key, row in _scan(state.evidence, (tenant,), after):
        yield (*key, row.created_us, row.body)


def _budgets(state: State, tenant: str, after: Row) -> Rows:
    for key, budget in _scan(state.budgets, (tenant,), after):
        spent = state.budget_spent[tenant, budget.id]
        body = usage_rules.encode_budget(budget)
        yield (*key, body, spent.since_us, spent.nano, spent.tokens)


_TENANT: dict[str, Callable[[State, str, Row], Rows]] = {
    "stubs": _stubs,
    "kept_runs": _kept_runs,
    "memories": _plain("memories"),
    "spaces": _spaces,
    "embeddings": _embeddings,
    "attachments": _attachments,
    "artifacts": _artifacts,
    "evidence": _evidence,
    "budgets": _budgets,
    "blobs": _blobs,
}


def _nodes(state: State, tenant: str, number: int, after: Row) -> Rows:
    for key, row in _scan(state.nodes, (number,), after):
        what = (row.role, row.kind, row.label, row.run_id, row.meta, row.format, row.refs)
        hidden = (row.deleted_us, row.deleted_rev, row.commitment)
        body = (row.created_us, row.id, row.salt, row.body)
        yield (*key, row.parent, row.seq, *what, *body, *hidden)


def _amendments(state: State, tenant: str, number: int, after: Row) -> Rows:
    for key, row in _scan(state.amendments, (number,), after):
        yield (*key, row.revision, row.created_us, row.salt, row.patch, row.commitment)


def _notes(state: State, tenant: str, number: int, after: Row) -> Rows:
    for key, row in _scan(state.notes, (number,), after):
        yield (*key, row.format, row.refs, row.created_us, row.body)


def _runs(state: State, tenant: str, number: int, after: Row) -> Rows:
    for (id,), _ in _scan(state.session_runs, (number,), after):
        yield id, state.runs[tenant, id].data


def _values(name: str) -> Callable[[State, str, int, Row], Rows]:
    """A table with one value in a row."""

    def read(state: State, tenant: str, number: int, after: Row) -> Rows:
        for key, value in _scan(getattr(state, name), (number,), after):
            yield (*key, value)

    return read


def _work(state: State, tenant: str, number: int, after: Row) -> Rows:
    for _, row in _scan(state.work, (number,), after):
        yield astuple(row)


def _dead_work(state: State, tenant: str, number: int, after: Row) -> Rows:
    for key, row in _scan(state.dead_work, (number,), after):
        yield (*key, *astuple(row))


def _call_sums(state: State, tenant: str, number: int, after: Row) -> Rows:
    row = state.call_sums.get((number,))
    if row is not None:
        yield astuple(row)


def _usage_days(state: State, tenant: str, number: int, after: Row) -> Rows:
    for key, row in _scan(state.usage_days, (tenant, number), after):
        yield (*key, *astuple(row))


def _ready(state: State, tenant: str, number: int, after: Row) -> Rows:
    for key, row in _scan(state.ready, (number,), after):
        yield (*key, row.priority, row.due_us)


_SESSION: dict[str, Callable[[State, str, int, Row], Rows]] = {
    "nodes": _nodes,
    "amendments": _amendments,
    "branches": _values("branches"),
    "notes": _notes,
    "contents": _values("values"),
    "documents": _values("documents"),
    "runs": _runs,
    "tickets": _values("tickets"),
    "executions": _values("executions"),
    "work": _work,
    "dead_work": _dead_work,
    "call_sums": _call_sums,
    "usage_days": _usage_days,
    "ready": _ready,
}
