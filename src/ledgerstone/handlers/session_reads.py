"""What is read of one session: its record, its head, what a list shows of it, its documents."""

from __future__ import annotations

from ledgerstone.commands.sessions import (
    GetDocument,
    GetDocuments,
    GetHead,
    GetPicker,
    GetSession,
)
from ledgerstone.handlers.heads import find_head, find_session
from ledgerstone.handlers.nodes import id_at, node_at
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.sessions import named_branches, read_session, session_of
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Head, Picker, Session
from ledgerstone.rules import ledger
from ledgerstone.rules.bodies import read_body, read_json, read_object
from ledgerstone.rules.guard import is_live
from ledgerstone.tables.sessions import DOCUMENTS, SESSIONS_BY_ID
from ledgerstone.tables.transaction import Tx


@handles(GetSession)
async def get_session(tx: Tx, query: GetSession) -> Session | None:
    """By id, soft-deleted ones too."""
    return await read_session(tx, query.tenant, query.id)


@handles(GetHead)
async def get_head(tx: Tx, query: GetHead) -> Head | None:
    """Where the session stands; None before its first commit."""
    head = await find_head(tx, query.tenant, query.id)
    if head is None or head.revision == 0:
        return None
    names = ((head.number, "config"), (head.number, "frames"))
    config, frames = await tx.get_many(DOCUMENTS, names)
    framed = read_object(None if frames is None else frames.body, "documents", query.id, "frames")
    return Head(
        session=query.id,
        revision=head.revision,
        incarnation=head.incarnation,
        leaf=await id_at(tx, head.number, head.leaf),
        effective_leaf=await id_at(tx, head.number, head.tip),
        seq=head.tip_seq,
        messages=head.messages,
        user_messages=head.users,
        nodes=head.live,
        fence=head.fence,
        lease=head.lease(query.id) if is_live(head, tx.now_us) else None,
        branches=await named_branches(tx, head) if head.named else [],
        ledger=ledger.visible(head.ledger, query.id),
        config=None if config is None else read_json(config.body, "documents", query.id, "config"),
        frames=framed.get("frames", []),
        current_frame=framed.get("current", ""),
        checkpoint=head.checkpoint,
        link=head.link.hex(),
        updated_us=head.updated_us,
    )


@handles(GetPicker)
async def get_picker(tx: Tx, query: GetPicker) -> Picker | None:
    """What a list of sessions shows."""
    found = await find_session(tx, query.tenant, query.id)
    if found is None:
        return None
    session, head = session_of(*found), found[1]
    node = await node_at(tx, head.number, head.first_user) if head.first_user else None
    first = None
    if node is not None and node.body is not None:
        first = Message(body=read_body(node.body, node.id)).text
    return Picker(query.id, session.cwd, session.parent, session.cause, first, head.users)


@handles(GetDocument)
async def get_document(tx: Tx, query: GetDocument) -> bytes | None:
    """One of the session's documents."""
    row = await tx.find(SESSIONS_BY_ID, query.tenant, query.session)
    document = None if row is None else await tx.get(DOCUMENTS, row.number, query.name)
    return None if document is None else document.body


@handles(GetDocuments)
async def get_documents(tx: Tx, query: GetDocuments) -> dict[str, bytes]:
    """The same of several sessions, in the order in which they were named."""
    rows = [await tx.find(SESSIONS_BY_ID, query.tenant, id) for id in query.sessions]
    ids = {row.number: row.id for row in rows if row is not None}
    documents = await tx.get_many(DOCUMENTS, [(number, query.name) for number in ids])
    return {ids[one.number]: one.body for one in documents if one is not None}
