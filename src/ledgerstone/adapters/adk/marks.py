"""What a session object has seen of its session: kept in it, where ADK has a place for that."""

from __future__ import annotations

from typing import Any

import msgspec
from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.session import Session as AdkSession

from ledgerstone.adapters.adk.events import natives_of
from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetHead, GetSession
from ledgerstone.records.sessions import Session

PREFIX = "ledgerstone:"
JOINED = 50
"""So many messages are looked at for the last event: of others, several may be one."""
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


async def seen(store: AnyStore, session: AdkSession, id: str) -> tuple[Seen, int]:
    """What the object saw of the session with this id, and the revision that it must still be at.

    An object that another service made, or a program by hand, has seen what its last event says.
    """
    known = read(session)
    if known is not None and known.revision is not None:
        return known, known.revision
    tenant: Any = store.tenant
    stored, head, last = await of(
        store.read(
            GetSession(tenant=tenant, id=id),
            GetHead(tenant=tenant, id=id),
            ReadMessages(tenant=tenant, session=id, last=JOINED),
        )
    )
    if stored is None:
        raise SessionNotFoundError(f"Session {session.id} not found.")
    now = as_listed(stored)
    if known is not None and known != now:
        raise StaleSessionError(STALE)
    shown = [event.id for event in session.events[-1:]]
    if known is None and [native["id"] for native in natives_of(last)][-1:] != shown:
        raise StaleSessionError("The session has events in storage that this object has not seen.")
    return now, 0 if head is None else head.revision


def read(session: AdkSession) -> Seen | None:
    """What the object says that it has seen; None for one that this service did not make."""
    mark = session._storage_update_marker
    if mark is None or not mark.startswith(PREFIX):
        return None
    return _decode(mark.removeprefix(PREFIX))
