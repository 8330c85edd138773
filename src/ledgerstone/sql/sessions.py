"""Sessions: make, change, delete, read."""

from __future__ import annotations

import msgspec

from ledgerstone.codec import decode_json, encode_json, encode_struct
from ledgerstone.commands.sessions import (
    CreateSession,
    DeleteSession,
    GetDocument,
    GetDocuments,
    GetHead,
    GetOrCreateSession,
    GetPicker,
    GetSession,
    PutSession,
    RestoreSession,
    UpdateSession,
)
from ledgerstone.errors import AlreadyExists, Corrupt, SessionNotFound, SessionRetired
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import Branch
from ledgerstone.records.sessions import STATUSES, Cause, Head, Picker, Session
from ledgerstone.rules import ledger
from ledgerstone.rules.bodies import read_body, read_json, read_object
from ledgerstone.rules.chain import GENESIS
from ledgerstone.rules.guard import check_alive, is_live
from ledgerstone.rules.leases import FLOOR_STUB
from ledgerstone.rules.rows import RECENCY_SHIFT, HeadRow
from ledgerstone.sql.budgets import change_user
from ledgerstone.sql.heads import base_of, find_head, need_head
from ledgerstone.sql.paths import effective, id_at
from ledgerstone.sql.ready import restore_ready
from ledgerstone.sql.tx import Row, Tx

_GIVEN = ("user", "app", "title", "model", "cwd", "status", "metadata", "parent", "cause")


async def create_session(tx: Tx, command: CreateSession) -> Session:
    """A new session; a repeated call with the same content answers the stored one."""
    stored = await read_session(tx, command.tenant, command.session.id)
    if stored is None:
        await insert_session(tx, command.tenant, command.session, command.document)
        return await _need_session(tx, command.tenant, command.session.id)
    if command.ensure or await _is_repeat(tx, command, stored):
        return stored
    raise AlreadyExists(command.session.id)


async def _is_repeat(tx: Tx, command: CreateSession, stored: Session) -> bool:
    given = command.session
    if any(getattr(given, name) != getattr(stored, name) for name in _GIVEN):
        return False
    head = await need_head(tx, command.tenant, given.id)
    row = await tx.one("get_document", head.number, "document")
    return (None if row is None else row[0]) == command.document


async def insert_session(
    tx: Tx, tenant: str, session: Session, document: bytes | None = None
) -> HeadRow:
    """The rows of a new session; a purged namesake hands on its fence and incarnation."""
    incarnation, fence = 1, 0
    for id, last, last_fence, retired in await tx.all("stubs_of", tenant, session.id):
        if retired:
            raise SessionRetired(session.id)
        fence = max(fence, last_fence)
        if id != FLOOR_STUB:
            incarnation = last + 1
    created_us = session.created_us or tx.now_us
    updated_us = session.updated_us or created_us
    row = await tx.one(
        "insert_session",
        tenant,
        session.id,
        incarnation,
        *_given(session),
        created_us,
        updated_us >> RECENCY_SHIFT,
    )
    assert row is not None
    head = HeadRow(row[0], incarnation, fence=fence, updated_us=updated_us)
    await tx.run("insert_head", head.number, fence, updated_us, GENESIS)
    if document is not None:
        await tx.run("put_document", head.number, "document", document)
    return head


async def put_session(tx: Tx, command: PutSession) -> Session:
    """Create or overwrite the whole record."""
    session = command.session
    document = command.document if isinstance(command.document, bytes) else None
    head = await find_head(tx, command.tenant, session.id)
    if head is None:
        await insert_session(tx, command.tenant, session, document)
        return await _need_session(tx, command.tenant, session.id)
    check_alive(session.id, head)
    updated_us = session.updated_us or head.moment(tx.now_us)
    owner = await tx.one("user_of", head.number)
    await _overwrite(tx, head, session, updated_us)
    if owner is not None and owner[0] != session.user:
        await change_user(tx, command.tenant, owner[0], session.user)
    if command.document is not msgspec.UNSET:
        await _put_document(tx, head, document)
    return await _need_session(tx, command.tenant, session.id)


async def _overwrite(tx: Tx, head: HeadRow, session: Session, updated_us: int) -> None:
    recency = updated_us >> RECENCY_SHIFT
    await tx.run("overwrite_session", head.number, *_given(session), recency)
    await tx.run("touch_head", head.number, updated_us)


async def _put_document(tx: Tx, head: HeadRow, document: bytes | None) -> None:
    if document is None:
        await tx.run("drop_document", head.number, "document")
    else:
        await tx.run("put_document", head.number, "document", document)


async def get_or_create_session(tx: Tx, command: GetOrCreateSession) -> Session:
    """The newest live session of this user and app, or the new one."""
    given = command.session
    rows = await tx.pick(
        "list_sessions",
        tenant=command.tenant,
        user=given.user,
        anonymous=True if given.user is None else None,
        app=given.app,
        live=True,
        newest=True,
        limit=1,
        offset=0,
    )
    if rows:
        return session_of(rows[0])
    return await create_session(tx, CreateSession(tenant=command.tenant, session=given))


async def update_session(tx: Tx, command: UpdateSession) -> Session:
    """Some fields; what is UNSET stays."""
    stored = await read_session(tx, command.tenant, command.id)
    if stored is None:
        raise SessionNotFound(command.id)
    head = await need_head(tx, command.tenant, command.id)
    check_alive(command.id, head)
    names = ("title", "model", "status", "cwd", "metadata")
    given = {name: getattr(command, name) for name in names}
    changes = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    changed = msgspec.structs.replace(stored, **changes)
    await _overwrite(tx, head, changed, head.moment(tx.now_us))
    if isinstance(command.document, bytes) or command.document is None:
        await _put_document(tx, head, command.document)
    return await _need_session(tx, command.tenant, command.id)


async def delete_session(tx: Tx, command: DeleteSession) -> bool:
    """Soft delete; True when this call did it."""
    head = await find_head(tx, command.tenant, command.id)
    if head is None or head.deleted_us is not None:
        return False
    await tx.run("mark_deleted", head.number, tx.now_us)
    return True


async def restore_session(tx: Tx, command: RestoreSession) -> bool:
    """Undo a soft delete; True when this call did it."""
    head = await find_head(tx, command.tenant, command.id)
    if head is None or head.deleted_us is None:
        return False
    await tx.run("mark_deleted", head.number, None)
    await restore_ready(tx, command.tenant, head)
    return True


async def get_session(tx: Tx, query: GetSession) -> Session | None:
    """By id, soft-deleted ones too."""
    return await read_session(tx, query.tenant, query.id)


async def read_session(tx: Tx, tenant: str, id: str) -> Session | None:
    """A stored session, or None."""
    row = await tx.one("get_session", tenant, id)
    return None if row is None else session_of(row)


async def _need_session(tx: Tx, tenant: str, id: str) -> Session:
    session = await read_session(tx, tenant, id)
    if session is None:
        raise Corrupt("sessions", id, "number", "its head is there, its row is not")
    return session


async def get_head(tx: Tx, query: GetHead) -> Head | None:
    """Where the session stands; None before its first commit."""
    head = await find_head(tx, query.tenant, query.id)
    if head is None or head.revision == 0:
        return None
    config = await tx.one("get_document", head.number, "config")
    frames = await tx.one("get_document", head.number, "frames")
    framed = read_object(None if frames is None else frames[0], "documents", query.id, "frames")
    return Head(
        session=query.id,
        revision=head.revision,
        incarnation=head.incarnation,
        leaf=await id_at(tx, head, head.leaf),
        effective_leaf=await id_at(tx, head, head.tip),
        seq=head.tip_seq,
        messages=head.messages,
        user_messages=head.users,
        nodes=head.live,
        fence=head.fence,
        lease=head.lease(query.id) if is_live(head, tx.now_us) else None,
        branches=await named_branches(tx, head) if head.named else [],
        ledger=ledger.visible(head.ledger, query.id),
        config=None if config is None else read_json(config[0], "documents", query.id, "config"),
        frames=framed.get("frames", []),
        current_frame=framed.get("current", ""),
        checkpoint=head.checkpoint,
        link=head.link.hex(),
        updated_us=head.updated_us,
    )


async def named_branches(tx: Tx, head: HeadRow) -> list[Branch]:
    """The branches besides main, by name."""
    found = []
    for name, leaf in await tx.all("list_branches", head.number):
        tip, seq = await effective(tx, head, leaf)
        found.append(Branch(name, await id_at(tx, head, tip), seq))
    return found


async def get_picker(tx: Tx, query: GetPicker) -> Picker | None:
    """What a list of sessions shows."""
    session = await read_session(tx, query.tenant, query.id)
    head = await find_head(tx, query.tenant, query.id)
    if session is None or head is None:
        return None
    first = None
    if head.first_user:
        row = await tx.one("body_at", base_of(head) + head.first_user)
        if row is not None and row[0] is not None:
            first = Message(body=read_body(row[0], row[1])).text
    return Picker(query.id, session.cwd, session.parent, session.cause, first, head.users)


async def get_document(tx: Tx, query: GetDocument) -> bytes | None:
    """One of the session's documents."""
    rows = await tx.among("get_documents", [query.session], query.tenant, query.name)
    return rows[0][1] if rows else None


async def get_documents(tx: Tx, query: GetDocuments) -> dict[str, bytes]:
    """The same of several sessions, in the order in which they were named."""
    rows = await tx.among("get_documents", list(query.sessions), query.tenant, query.name)
    found: dict[str, bytes] = dict(rows)
    return {id: found[id] for id in query.sessions if id in found}


def session_of(row: Row) -> Session:
    """A stored row as a record; an unknown status or broken JSON is Corrupt."""
    id, status, metadata, cause = row[0], row[7], row[8], row[10]
    if status not in STATUSES:
        raise Corrupt("sessions", id, "status", f"unknown value {status!r}")
    try:
        made_by = None if cause is None else msgspec.json.decode(cause, type=Cause)
        extra = None if metadata is None else decode_json(metadata)
    except (ValueError, msgspec.MsgspecError) as error:
        raise Corrupt("sessions", id, "metadata", str(error)) from None
    return Session(
        id=id,
        tenant=row[1],
        user=row[2],
        app=row[3],
        title=row[4],
        model=row[5],
        cwd=row[6],
        status=status,
        metadata=extra,
        parent=row[9],
        cause=made_by,
        incarnation=row[11],
        created_us=row[12],
        updated_us=row[13],
        deleted_us=row[14],
        active_run=row[15],
        open_run=row[16],
        latest_run=row[17],
    )


def _given(session: Session) -> tuple[str | bytes | None, ...]:
    """What a caller may set of a session row, in the order of its statements."""
    metadata = None if session.metadata is None else encode_json(session.metadata, "metadata")
    cause = None if session.cause is None else encode_struct(session.cause, "cause")
    texts = (session.user, session.app, session.title, session.model, session.cwd, session.status)
    return (*texts, metadata, session.parent, cause)
