"""The heads of sessions: found, moved and saved; and parents and children of sessions."""

from __future__ import annotations

from copy import copy

from msgspec.structs import replace

from ledgerstone.commands.sessions import DeleteSession, ParentRule, PurgeSession
from ledgerstone.errors import Corrupt, InvalidValue, SessionHasChildren, SessionNotFound
from ledgerstone.records.sessions import Session
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.rows import RECENCY_SHIFT
from ledgerstone.tables.sessions import (
    HEADS,
    SESSIONS,
    SESSIONS_BY_ID,
    SESSIONS_BY_PARENT,
    Head,
    SessionRow,
)
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


async def number_of(tx: Tx, tenant: str, session: str) -> int | None:
    """The number of a session, for who needs nothing else of it; None when there is none."""
    row = await tx.find(SESSIONS_BY_ID, tenant, session)
    return None if row is None else row.number


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


async def open_session(tx: Tx, tenant: str, session: str) -> Head:
    """The same of a session that takes writes; SessionDeleted."""
    head = await need_head(tx, tenant, session)
    check_alive(session, head)
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


async def check_parent(tx: Tx, tenant: str, session: Session, rule: ParentRule) -> None:
    """InvalidValue unless the session may have the parent that it names."""
    parent = session.parent
    if parent is None or rule == "any":
        return
    if session.id in await _line_of(tx, tenant, parent):
        raise InvalidValue("parent", f"{parent!r} is the session itself, or below it: a circle")
    if rule == "exists":
        head = await find_head(tx, tenant, parent)
        if head is None or head.deleted_us is not None:
            state = "not there" if head is None else "deleted"
            raise InvalidValue(
                "parent",
                f"session {parent!r} is {state}; parent_missing='keep' names it all the same",
            )


async def _line_of(tx: Tx, tenant: str, session: str) -> set[str]:
    """A session and those above it."""
    line: set[str] = set()
    above: str | None = session
    while above is not None and above not in line:
        line.add(above)
        row = await tx.find(SESSIONS_BY_ID, tenant, above)
        above = None if row is None else row.parent
    return line


async def descendants(tx: Tx, tenant: str, session: str) -> list[SessionRow]:
    """The sessions below one, each before its children, whether that one is there or not."""
    found: list[SessionRow] = []
    seen, parents = {session}, [session]
    while parents:
        for row in await tx.scan(SESSIONS_BY_PARENT, tenant, parents.pop()):
            if row.id not in seen:
                seen.add(row.id)
                parents.append(row.id)
                found.append(row)
    return found


async def part_from_children(
    tx: Tx, command: DeleteSession | PurgeSession, *, deleted: bool
) -> list[str]:
    """Do with the children what the command says; `deleted` ones count too. Whom it took along."""
    if command.children == "cascade":
        below = await descendants(tx, command.tenant, command.id)
        for head in await _heads_of(tx, below):
            if head.deleted_us is None:
                head.deleted_us = tx.now_us
                save_head(tx, head)
        return [row.id for row in reversed(below)]
    if command.children is None:
        return []
    children = await tx.scan(SESSIONS_BY_PARENT, command.tenant, command.id)
    if not deleted:
        live = {head.number for head in await _heads_of(tx, children) if head.deleted_us is None}
        children = [row for row in children if row.number in live]
    if children and command.children == "reject":
        raise SessionHasChildren(command.id, len(children))
    for row in children:
        tx.put(SESSIONS, replace(row, parent=None))
    return []


async def _heads_of(tx: Tx, rows: list[SessionRow]) -> list[Head]:
    heads = await tx.get_many(HEADS, [(row.number,) for row in rows])
    return [copy(head) for head in heads if head is not None]
