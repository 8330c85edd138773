"""Finding, moving and saving the head of a session."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.errors import Corrupt, SessionNotFound
from ledgerstone.rules.rows import RECENCY_SHIFT
from ledgerstone.tables.sessions import HEADS, SESSIONS, SESSIONS_BY_ID, Head, SessionRow
from ledgerstone.tables.transaction import Tx


async def find_session(tx: Tx, tenant: str, id: str) -> tuple[SessionRow, Head] | None:
    """The row and a private copy of the head; None for an unknown or purged session."""
    row = await tx.find(SESSIONS_BY_ID, tenant, id)
    if row is None:
        return None
    head = await tx.get(HEADS, row.number)
    if head is None:
        raise Corrupt("sessions", id, "number", "its row is there, its head is not")
    return row, replace(head)


async def find_head(tx: Tx, tenant: str, session: str) -> Head | None:
    """A private copy of the head; None for an unknown or purged session."""
    found = await find_session(tx, tenant, session)
    return None if found is None else found[1]


async def need_head(tx: Tx, tenant: str, session: str) -> Head:
    """The same, or SessionNotFound."""
    head = await find_head(tx, tenant, session)
    if head is None:
        raise SessionNotFound(session)
    return head


async def need_session(tx: Tx, tenant: str, session: str) -> tuple[SessionRow, Head]:
    """The row and a private copy of the head, or SessionNotFound."""
    found = await find_session(tx, tenant, session)
    if found is None:
        raise SessionNotFound(session)
    return found


def save_head(tx: Tx, head: Head) -> None:
    """Store the head as it is now; the caller may go on to change its own."""
    tx.put(HEADS, replace(head))


async def touch(tx: Tx, head: Head, updated_us: int) -> None:
    """Note a change of the session that is not a commit, and save the head."""
    if updated_us >> RECENCY_SHIFT != head.updated_us >> RECENCY_SHIFT:
        row = await tx.get(SESSIONS, head.number)
        if row is not None:
            move_recency(tx, row, updated_us)
    head.updated_us = head.touched_us = updated_us
    save_head(tx, head)


def move_recency(tx: Tx, row: SessionRow, updated_us: int) -> None:
    """Move the session in the list index, only when it left its bucket."""
    recency = updated_us >> RECENCY_SHIFT
    if row.recency != recency:
        tx.put(SESSIONS, replace(row, recency=recency))
