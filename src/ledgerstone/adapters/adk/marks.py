"""Which revision a session object has seen: kept in the object, in the place ADK has for it."""

from __future__ import annotations

from typing import Any

from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.session import Session as AdkSession

from ledgerstone.adapters.adk.events import events_of
from ledgerstone.adapters.adk.keys import store_id
from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetHead
from ledgerstone.records.turns import TurnCommitted

PREFIX = "ledgerstone:"


def put(session: AdkSession, id: str, revision: int) -> None:
    """The object has seen the session with this id at this revision."""
    session._storage_update_marker = f"{PREFIX}{revision}:{id}"


def move(session: AdkSession, answer: TurnCommitted) -> None:
    """It has seen a commit; a repeated one may be older than what it knows."""
    known = _read(session)
    put(session, answer.session, max(answer.revision, 0 if known is None else known[1]))


async def place(store: AnyStore, session: AdkSession) -> tuple[str, int]:
    """The id in the store, and the revision that the object must still be at.

    An object that another service made, or a program by hand, has seen what its last event says.
    """
    known = _read(session)
    if known is not None:
        return known
    id = store_id(session.app_name, session.user_id, session.id)
    tenant: Any = store.tenant
    head, messages = await of(
        store.read(GetHead(tenant=tenant, id=id), ReadMessages(tenant=tenant, session=id, last=1))
    )
    if head is None:
        raise SessionNotFoundError(f"Session {session.id} not found.")
    last = session.events[-1].id if session.events else None
    if (events_of(messages)[-1].id if messages else None) != last:
        raise StaleSessionError("The session has events in storage that this object has not seen.")
    return id, head.revision


def _read(session: AdkSession) -> tuple[str, int] | None:
    mark = session._storage_update_marker
    if mark is None or not mark.startswith(PREFIX):
        return None
    revision, _, id = mark.removeprefix(PREFIX).partition(":")
    return id, int(revision)
