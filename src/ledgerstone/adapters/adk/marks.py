"""What a session object has seen of its session: kept in it, where ADK has a place for that."""

from __future__ import annotations

from typing import Any

import msgspec
from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.session import Session as AdkSession

from ledgerstone.adapters.adk.events import events_of
from ledgerstone.adapters.adk.keys import store_id
from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetHead, GetSession
from ledgerstone.records.sessions import Session

PREFIX = "ledgerstone:"
STALE = (
    "The session has been modified in storage since it was loaded. "
    "Please reload the session before appending more events."
)


class Seen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A session of the store as somebody saw it.

    Lists do not tell the revision, hence the time, which every change moves as well.
    """

    id: str
    incarnation: int
    revision: int | None = None
    updated_us: int = 0


_decode = msgspec.json.Decoder(Seen).decode
_encode = msgspec.json.Encoder().encode


def put(session: AdkSession, seen: Seen) -> None:
    """The object has seen this."""
    session._storage_update_marker = PREFIX + _encode(seen).decode()


def as_listed(session: Session) -> Seen:
    """What a list tells."""
    return Seen(session.id, session.incarnation, updated_us=session.updated_us)


async def place(store: AnyStore, session: AdkSession) -> tuple[Seen, int]:
    """Where the object's session is, and the revision that it must still be at.

    An object that another service made, or a program by hand, has seen what its last event says.
    """
    known = _read(session)
    if known is not None and known.revision is not None:
        return known, known.revision
    id = store_id(session.app_name, session.user_id, session.id) if known is None else known.id
    tenant: Any = store.tenant
    stored, head, last = await of(
        store.read(
            GetSession(tenant=tenant, id=id),
            GetHead(tenant=tenant, id=id),
            ReadMessages(tenant=tenant, session=id, last=1),
        )
    )
    if stored is None:
        raise SessionNotFoundError(f"Session {session.id} not found.")
    now = as_listed(stored)
    if known is not None and known != now:
        raise StaleSessionError(STALE)
    if known is None and _ids(events_of(last)) != _ids(session.events[-1:]):
        raise StaleSessionError("The session has events in storage that this object has not seen.")
    return now, 0 if head is None else head.revision


def _ids(events: list[Any]) -> list[str]:
    return [event.id for event in events[-1:]]


def _read(session: AdkSession) -> Seen | None:
    mark = session._storage_update_marker
    if mark is None or not mark.startswith(PREFIX):
        return None
    return _decode(mark.removeprefix(PREFIX))
