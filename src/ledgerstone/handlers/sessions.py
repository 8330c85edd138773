"""Sessions: make, change, delete."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone.codec import decode_json, encode_json, encode_struct
from ledgerstone.commands import sessions as commands
from ledgerstone.errors import AlreadyExists, Corrupt, SessionRetired
from ledgerstone.handlers.heads import (
    check_parent,
    find_head,
    find_session,
    need_session,
    part_from_children,
    save_head,
)
from ledgerstone.handlers.nodes import effective, id_at
from ledgerstone.handlers.ready import restore_ready
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.usage import change_user
from ledgerstone.records.nodes import Branch
from ledgerstone.records.sessions import SESSION_FIELDS, STATUSES, Cause, Session
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.leases import FLOOR_STUB
from ledgerstone.rules.rows import RECENCY_SHIFT, record_of
from ledgerstone.tables.graph import BRANCHES
from ledgerstone.tables.sessions import (
    DOCUMENTS,
    HEADS,
    SESSIONS,
    SESSIONS_BY_RECENCY,
    SESSIONS_BY_USER,
    STUBS,
    DocumentRow,
    Head,
    SessionRow,
)
from ledgerstone.tables.table import Index
from ledgerstone.tables.transaction import Tx

_PAGE_ROWS = 50


@handles(commands.CreateSession)
async def create_session(tx: Tx, command: commands.CreateSession) -> Session:
    found = await find_session(tx, command.tenant, command.session.id)
    if found is None:
        await check_parent(tx, command.tenant, command.session, command.parent_rule)
        await insert_session(tx, command.tenant, command.session, command.document)
        return session_of(*await need_session(tx, command.tenant, command.session.id))
    stored = session_of(*found)
    if command.ensure:
        return stored
    document = await tx.get(DOCUMENTS, found[0].number, "document")
    same_document = (None if document is None else document.body) == command.document
    if _columns(command.session) != _columns(stored) or not same_document:
        raise AlreadyExists(command.session.id)
    return stored


async def insert_session(
    tx: Tx, tenant: str, session: Session, document: bytes | None = None
) -> Head:
    """The rows of a new session; a purged namesake hands on its fence and incarnation.

    The head is the caller's copy: who changes it saves it.
    """
    own, floor = await tx.get_many(STUBS, ((tenant, session.id), (tenant, FLOOR_STUB)))
    if own is not None and own.retired:
        raise SessionRetired(session.id)
    created_us = session.created_us or tx.now_us
    updated_us = session.updated_us or created_us
    head = Head(
        tx.number(),
        1 if own is None else own.incarnation + 1,
        fence=max((stub.fence for stub in (own, floor) if stub is not None), default=0),
        updated_us=updated_us,
        touched_us=updated_us,
    )
    row = SessionRow(
        number=head.number,
        tenant=tenant,
        id=session.id,
        created_us=created_us,
        recency=updated_us >> RECENCY_SHIFT,
        **_columns(session),
    )
    tx.insert(SESSIONS, [row])
    save_head(tx, head)
    if document is not None:
        tx.insert(DOCUMENTS, [DocumentRow(head.number, "document", document)])
    return head


@handles(commands.PutSession)
async def put_session(tx: Tx, command: commands.PutSession) -> Session:
    session = command.session
    document = command.document if isinstance(command.document, bytes) else None
    found = await find_session(tx, command.tenant, session.id)
    if found is None:
        await check_parent(tx, command.tenant, session, command.parent_rule)
        await insert_session(tx, command.tenant, session, document)
        return session_of(*await need_session(tx, command.tenant, session.id))
    old, head = found
    check_alive(session.id, head)
    if session.parent != old.parent:
        await check_parent(tx, command.tenant, session, command.parent_rule)
    row = _overwrite(tx, old, head, session, session.updated_us or head.moment(tx.now_us))
    if old.user != row.user:
        await change_user(tx, command.tenant, old.user, row.user)
    if command.document is not msgspec.UNSET:
        _put_document(tx, head.number, document)
    return session_of(row, head)


def _overwrite(
    tx: Tx, row: SessionRow, head: Head, session: Session, updated_us: int
) -> SessionRow:
    """Write everything that a caller may set, and the time."""
    row = replace(row, recency=updated_us >> RECENCY_SHIFT, **_columns(session))
    tx.put(SESSIONS, row)
    head.updated_us = head.touched_us = updated_us
    save_head(tx, head)
    return row


def _put_document(tx: Tx, number: int, document: bytes | None) -> None:
    if document is None:
        tx.delete(DOCUMENTS, number, "document")
    else:
        tx.put(DOCUMENTS, DocumentRow(number, "document", document))


@handles(commands.GetOrCreateSession)
async def get_or_create_session(tx: Tx, command: commands.GetOrCreateSession) -> Session:
    given = command.session
    found = await _newest(tx, command.tenant, given.user, given.app)
    if found is not None:
        return session_of(*found)
    made = commands.CreateSession(
        tenant=command.tenant, session=given, parent_rule=command.parent_rule
    )
    return await create_session(tx, made)


async def _newest(
    tx: Tx, tenant: str, user: str | None, app: str
) -> tuple[SessionRow, Head] | None:
    """The session that changed last; of several at the same time the one with the first id."""
    index: Index[SessionRow] = SESSIONS_BY_RECENCY if user is None else SESSIONS_BY_USER
    prefix = (tenant,) if user is None else (tenant, user)
    before: tuple[int] | None = None
    while True:
        rows = await tx.scan(index, *prefix, before=before, limit=_PAGE_ROWS, reverse=True)
        is_last = len(rows) < _PAGE_ROWS
        if not is_last:
            # Sessions of one recency are in no order: what the page has of the last one is not all.
            before = (rows[-1].recency,)
            rows = [row for row in rows if row.recency != before[0]]
            rows += await tx.scan(index, *prefix, *before)
        best = await _newest_of(tx, [row for row in rows if (row.user, row.app) == (user, app)])
        if best is not None or is_last:
            return best


async def _newest_of(tx: Tx, rows: list[SessionRow]) -> tuple[SessionRow, Head] | None:
    """The same among rows whose recency falls: only the first live ones need a look."""
    best: tuple[SessionRow, Head] | None = None
    for row in rows:
        if best is not None and row.recency < best[0].recency:
            return best
        head = await tx.get(HEADS, row.number)
        if head is None:
            raise Corrupt("sessions", row.id, "number", "its row is there, its head is not")
        if head.deleted_us is not None:
            continue
        if best is None or (-head.updated_us, row.id) < (-best[1].updated_us, best[0].id):
            best = row, head
    return best


@handles(commands.UpdateSession)
async def update_session(tx: Tx, command: commands.UpdateSession) -> Session:
    row, head = await need_session(tx, command.tenant, command.id)
    stored = session_of(row, head)
    check_alive(command.id, head)
    given = {name: getattr(command, name, msgspec.UNSET) for name in SESSION_FIELDS}
    changes = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    changed = replace(stored, **changes)
    row = _overwrite(tx, row, head, changed, head.moment(tx.now_us))
    if isinstance(command.document, bytes) or command.document is None:
        _put_document(tx, head.number, command.document)
    return session_of(row, head)


@handles(commands.DeleteSession)
async def delete_session(tx: Tx, command: commands.DeleteSession) -> bool:
    head = await find_head(tx, command.tenant, command.id)
    if head is None or head.deleted_us is not None:
        return False
    await part_from_children(tx, command, deleted=False)
    head.deleted_us = tx.now_us
    save_head(tx, head)
    return True


@handles(commands.RestoreSession)
async def restore_session(tx: Tx, command: commands.RestoreSession) -> bool:
    head = await find_head(tx, command.tenant, command.id)
    if head is None or head.deleted_us is None:
        return False
    head.deleted_us = None
    save_head(tx, head)
    if head.enqueued:
        await restore_ready(tx, command.tenant, head)
    return True


async def named_branches(tx: Tx, head: Head) -> list[Branch]:
    """The branches besides main, by name."""
    found = []
    for row in await tx.scan(BRANCHES.primary, head.number):
        tip, seq = await effective(tx, head, row.leaf)
        found.append(Branch(row.name, await id_at(tx, head.number, tip), seq))
    return found


def session_of(row: SessionRow, head: Head) -> Session:
    """Stored rows as a record; an unknown status or broken JSON is Corrupt."""
    if row.status not in STATUSES:
        raise Corrupt("sessions", row.id, "status", f"unknown value {row.status!r}")
    try:
        cause = None if row.cause is None else msgspec.json.decode(row.cause, type=Cause)
        metadata = None if row.metadata is None else decode_json(row.metadata)
    except (ValueError, msgspec.MsgspecError) as error:
        raise Corrupt("sessions", row.id, "metadata", str(error)) from None
    return record_of(
        Session,
        row,
        metadata=metadata,
        cause=cause,
        incarnation=head.incarnation,
        updated_us=head.updated_us,
        deleted_us=head.deleted_us,
        active_run=head.active_run,
        open_run=head.open_run,
        latest_run=head.latest_run,
    )


_COLUMNS = tuple(name for name in SESSION_FIELDS if name != "created_us")


def _columns(session: Session) -> dict[str, Any]:
    """What a caller may set of a session row."""
    metadata, cause = session.metadata, session.cause
    return {
        **{name: getattr(session, name) for name in _COLUMNS},
        "metadata": None if metadata is None else encode_json(metadata, "metadata"),
        "cause": None if cause is None else encode_struct(cause, "cause"),
    }
