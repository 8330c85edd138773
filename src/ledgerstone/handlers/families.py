"""Sessions and the sessions below them: who may be a parent, and what becomes of children."""

from __future__ import annotations

from copy import copy

from msgspec.structs import replace

from ledgerstone.commands.sessions import DeleteSession, ParentRule, PurgeSession
from ledgerstone.errors import InvalidValue, SessionHasChildren
from ledgerstone.handlers.heads import find_head, save_head
from ledgerstone.records.sessions import Session
from ledgerstone.tables.sessions import (
    HEADS,
    SESSIONS,
    SESSIONS_BY_ID,
    SESSIONS_BY_PARENT,
    Head,
    SessionRow,
)
from ledgerstone.tables.transaction import Tx


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
            _delete(tx, head)
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


def _delete(tx: Tx, head: Head) -> None:
    if head.deleted_us is None:
        head.deleted_us = tx.now_us
        save_head(tx, head)
