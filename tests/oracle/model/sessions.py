"""Sessions: make, change, delete, restore, and what is read of one of them."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ledgerstone.codec import decode_json, encode_json
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
from ledgerstone.errors import AlreadyExists
from ledgerstone.records.sessions import Head, Picker, Session
from ledgerstone.rules import ledger
from ledgerstone.rules.guard import check_alive, is_live
from tests.oracle.model import branches, paths
from tests.oracle.model.budgets import change_user
from tests.oracle.model.messages import to_message
from tests.oracle.model.ready import restore_ready
from tests.oracle.model.standing import (
    Standing,
    find,
    make,
    put_document,
    require_alive,
    save_head,
    to_row,
)
from tests.oracle.model.state import Tx


def create_session(tx: Tx, command: CreateSession) -> Session:
    """A new session, the existing one when asked to ensure it or when it is the same."""
    wanted = command.session
    found = find(tx, command.tenant, wanted.id)
    if found is None:
        made = make(tx, command.tenant, wanted.id, wanted)
        put_document(tx, made.number, "document", command.document)
        return made.record()
    if not command.ensure and not _is_repeat(tx, found, command):
        raise AlreadyExists(wanted.id)
    return found.record()


def _is_repeat(tx: Tx, found: Standing, command: CreateSession) -> bool:
    stored = found.row
    return (
        to_row(command.session, stored.number, stored.created_us) == stored
        and tx.state.documents.get((stored.number, "document")) == command.document
    )


def put_session(tx: Tx, command: PutSession) -> Session:
    """Create or overwrite the whole record."""
    wanted = command.session
    found = find(tx, command.tenant, wanted.id)
    if found is None:
        found = make(tx, command.tenant, wanted.id, wanted)
    else:
        check_alive(wanted.id, found.head)
        owner = found.row.user
        found.row = to_row(wanted, found.number, found.row.created_us)
        tx.state.sessions.update((command.tenant, wanted.id), found.row)
        change_user(tx, command.tenant, owner, wanted.user)
        found.head.updated_us = wanted.updated_us or found.head.moment(tx.now_us)
    save_head(tx, found)
    if command.document is not UNSET:
        put_document(tx, found.number, "document", command.document)
    return found.record()


def get_or_create_session(tx: Tx, command: GetOrCreateSession) -> Session:
    """The newest live session of the user and app, or this new one."""
    wanted = command.session
    newest: tuple[int, str] | None = None
    for (_, session_id), row in tx.state.sessions.scan((command.tenant,)):
        head = tx.state.heads[(row.number,)]
        if (row.user, row.app) != (wanted.user, wanted.app) or head.deleted_us is not None:
            continue
        # The scan goes by id, so among equal times the first one seen is the right one.
        if newest is None or head.updated_us > newest[0]:
            newest = (head.updated_us, session_id)
    found = None if newest is None else find(tx, command.tenant, newest[1])
    if found is not None:
        return found.record()
    return create_session(tx, CreateSession(tenant=command.tenant, session=wanted))


def update_session(tx: Tx, command: UpdateSession) -> Session:
    """Change the given fields; neither the revision nor a lease is concerned."""
    found = require_alive(tx, command.tenant, command.id)
    changes: dict[str, Any] = {
        name: getattr(command, name)
        for name in ("title", "model", "status", "cwd")
        if getattr(command, name) is not UNSET
    }
    if command.metadata is not UNSET:
        changes["metadata"] = encode_json(command.metadata, "metadata")
    found.row = replace(found.row, **changes)
    tx.state.sessions.update((command.tenant, command.id), found.row)
    if command.document is not UNSET:
        put_document(tx, found.number, "document", command.document)
    found.head.updated_us = found.head.moment(tx.now_us)
    save_head(tx, found)
    return found.record()


def delete_session(tx: Tx, command: DeleteSession) -> bool:
    """Soft; False when there is nothing to delete."""
    found = find(tx, command.tenant, command.id)
    if found is None or found.head.deleted_us is not None:
        return False
    found.head.deleted_us = tx.now_us
    save_head(tx, found)
    return True


def restore_session(tx: Tx, command: RestoreSession) -> bool:
    """Undo a soft delete; False when there is nothing to restore."""
    found = find(tx, command.tenant, command.id)
    if found is None or found.head.deleted_us is None:
        return False
    found.head.deleted_us = None
    save_head(tx, found)
    restore_ready(tx, found)
    return True


def get_session(tx: Tx, query: GetSession) -> Session | None:
    """By id, soft-deleted ones too."""
    found = find(tx, query.tenant, query.id)
    return None if found is None else found.record()


def get_head(tx: Tx, query: GetHead) -> Head | None:
    """Where the session stands; None before its first commit."""
    found = find(tx, query.tenant, query.id)
    if found is None or found.head.revision == 0:
        return None
    head = found.head
    frames = _document(tx, found, "frames") or {}
    return Head(
        session=found.id,
        revision=head.revision,
        incarnation=head.incarnation,
        leaf=paths.id_of(tx, found.number, head.leaf),
        effective_leaf=paths.id_of(tx, found.number, head.tip),
        seq=head.tip_seq,
        messages=head.messages,
        user_messages=head.users,
        nodes=head.live,
        fence=head.fence,
        lease=head.lease(found.id) if is_live(head, tx.now_us) else None,
        branches=branches.named(tx, found),
        ledger=ledger.visible(head.ledger, query.id),
        config=_document(tx, found, "config"),
        frames=frames.get("frames", []),
        current_frame=frames.get("current", ""),
        checkpoint=head.checkpoint,
        link=head.link.hex(),
        updated_us=head.updated_us,
    )


def _document(tx: Tx, found: Standing, name: str) -> Any:
    data = tx.state.documents.get((found.number, name))
    return None if data is None else decode_json(data)


def get_picker(tx: Tx, query: GetPicker) -> Picker | None:
    """What a list of sessions shows of this one."""
    found = find(tx, query.tenant, query.id)
    if found is None:
        return None
    row, head = found.row, found.head
    first = tx.state.nodes.get((found.number, head.first_user))
    text = None if first is None else to_message(tx, found, first).text
    return Picker(found.id, row.cwd, row.parent, row.cause, text, head.users)


def get_document(tx: Tx, query: GetDocument) -> bytes | None:
    """One of the session's documents, or None."""
    found = find(tx, query.tenant, query.session)
    return None if found is None else tx.state.documents.get((found.number, query.name))


def get_documents(tx: Tx, query: GetDocuments) -> dict[str, bytes]:
    """The documents of one name that several sessions have."""
    documents = {}
    for session in query.sessions:
        one = GetDocument(tenant=query.tenant, session=session, name=query.name)
        body = get_document(tx, one)
        if body is not None:
            documents[session] = body
    return documents
