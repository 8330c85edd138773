"""A session as a handler finds it: its row, and a private copy of its head."""

from __future__ import annotations

from copy import copy

import msgspec

from ledgerstone.codec import decode_json, encode_json
from ledgerstone.errors import SessionNotFound, SessionRetired
from ledgerstone.records.sessions import Session
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.leases import FLOOR_STUB
from ledgerstone.rules.rows import HeadRow
from tests.oracle.model.rows import SessionRow
from tests.oracle.model.state import Tx


class Standing(msgspec.Struct):
    """Where a session stands; the head may be changed and is stored by `save_head`."""

    tenant: str
    id: str
    row: SessionRow
    head: HeadRow

    @property
    def number(self) -> int:
        return self.row.number

    def record(self) -> Session:
        """The session as callers see it."""
        row, head = self.row, self.head
        return Session(
            id=self.id,
            tenant=self.tenant,
            user=row.user,
            app=row.app,
            title=row.title,
            model=row.model,
            cwd=row.cwd,
            status=row.status,
            metadata=decode_json(row.metadata),
            parent=row.parent,
            cause=row.cause,
            incarnation=head.incarnation,
            created_us=row.created_us,
            updated_us=head.updated_us,
            deleted_us=head.deleted_us,
            active_run=head.active_run,
            open_run=head.open_run,
            latest_run=head.latest_run,
        )


def find(tx: Tx, tenant: str, session: str) -> Standing | None:
    """The session, soft-deleted or not; None when there is none."""
    row = tx.state.sessions.get((tenant, session))
    if row is None:
        return None
    return Standing(tenant, session, row, copy(tx.state.heads[(row.number,)]))


def require(tx: Tx, tenant: str, session: str) -> Standing:
    """The session, soft-deleted or not; else SessionNotFound."""
    found = find(tx, tenant, session)
    if found is None:
        raise SessionNotFound(session)
    return found


def require_alive(tx: Tx, tenant: str, session: str) -> Standing:
    """The session; SessionNotFound or SessionDeleted when it takes no writes."""
    found = require(tx, tenant, session)
    check_alive(session, found.head)
    return found


def save_head(tx: Tx, standing: Standing) -> None:
    """Store the head as it is now; later changes of the copy do not show."""
    tx.state.heads.update((standing.number,), copy(standing.head))


def make(tx: Tx, tenant: str, session_id: str, session: Session) -> Standing:
    """Store a session whose id is free: fence and incarnation go on from a purged one."""
    stub = tx.state.stubs.get((tenant, session_id))
    if stub is not None and stub.retired:
        raise SessionRetired(session_id)
    number = tx.state.next_number("session")
    created_us = session.created_us or tx.now_us
    head = HeadRow(number, updated_us=session.updated_us or created_us)
    if stub is not None:
        head.incarnation, head.fence = stub.incarnation + 1, stub.fence
    floor = tx.state.stubs.get((tenant, FLOOR_STUB))
    if floor is not None:
        head.fence = max(head.fence, floor.fence)
    row = to_row(session, number, created_us)
    tx.state.sessions.insert((tenant, session_id), row)
    tx.state.session_ids.insert((number,), session_id)
    tx.state.heads.insert((number,), copy(head))
    return Standing(tenant, session_id, row, head)


def to_row(session: Session, number: int, created_us: int) -> SessionRow:
    """The given record as it is stored."""
    return SessionRow(
        number=number,
        user=session.user,
        app=session.app,
        title=session.title,
        model=session.model,
        cwd=session.cwd,
        status=session.status,
        metadata=encode_json(session.metadata, "metadata"),
        parent=session.parent,
        cause=session.cause,
        created_us=created_us,
    )


def put_document(tx: Tx, number: int, name: str, data: bytes | None) -> None:
    """Store one of a session's documents; None removes it."""
    key = (number, name)
    if data is not None:
        tx.state.documents.put(key, data)
    elif key in tx.state.documents:
        tx.state.documents.delete(key)
