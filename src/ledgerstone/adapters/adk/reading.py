"""Sessions as ADK wants them, one or a list, and what each object has seen of the store."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
from google.adk.errors import StaleSessionError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session as AdkSession

from ledgerstone.adapters.adk import states
from ledgerstone.adapters.adk.events import US_PER_S, events_of, natives_of, time_of
from ledgerstone.adapters.adk.keys import ADK, adk_id, app_space, user_space
from ledgerstone.adapters.sync_async import AnyStore, each, of
from ledgerstone.commands import Query
from ledgerstone.commands.memories import SearchMemories
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetDocument, GetDocuments, GetHead, GetSession
from ledgerstone.formats import origin
from ledgerstone.intake.memories import namespace_text
from ledgerstone.records.memories import Memory
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Session

MARKER_PREFIX = "ledgerstone:"
JOINED_MAX = 50
"""Messages read to find the last event; several of another framework may form one."""
RECENT_MAX = 1 << 62
"""More events than a database can count to are asked for as all."""
FIRST_READ, GROWTH = 50, 4
"""Messages that are read first when a time is given, and how many times as many then."""
DOCUMENTS_MAX = 500
"""Documents that one statement asks for."""
STALE = (
    "The session has been modified in storage since it was loaded. "
    "Please reload the session before appending more events."
)


class StorageMarker(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A session of the store as an object of ADK saw it, kept where ADK has a place for that.

    Lists do not tell the revision, hence the time, which every change moves as well.
    """

    id: str
    incarnation: int
    revision: int | None = None
    updated_us: int = 0


_decode = msgspec.json.Decoder(StorageMarker).decode
_encode = msgspec.json.Encoder().encode


def set_marker(session: AdkSession, marker: StorageMarker) -> None:
    """Note in the object what it has seen."""
    session._storage_update_marker = MARKER_PREFIX + _encode(marker).decode()


def marker_of(session: AdkSession) -> StorageMarker | None:
    """What the object says that it has seen; None for one that this service did not make."""
    marker = session._storage_update_marker
    if marker is None or not marker.startswith(MARKER_PREFIX):
        return None
    return _decode(marker.removeprefix(MARKER_PREFIX))


async def checked_marker(
    store: AnyStore, session: AdkSession, id: str
) -> tuple[StorageMarker, int]:
    """What the object saw of the session with this id, and the revision that it must still be at.

    An object that another service made, or a program by hand, has seen what its last event says.
    StaleSessionError, SessionNotFoundError.
    """
    known = marker_of(session)
    if known is not None and known.revision is not None:
        return known, known.revision
    tenant: Any = store.tenant
    stored, head, last = await of(
        store.read(
            GetSession(tenant=tenant, id=id),
            GetHead(tenant=tenant, id=id),
            ReadMessages(tenant=tenant, session=id, last=JOINED_MAX),
        )
    )
    if stored is None:
        raise SessionNotFoundError(f"Session {session.id} not found.")
    now = _listed_marker(stored)
    if known is not None and known != now:
        raise StaleSessionError(STALE)
    shown = [event.id for event in session.events[-1:]]
    if known is None and [native["id"] for native in natives_of(last)][-1:] != shown:
        raise StaleSessionError("The session has events in storage that this object has not seen.")
    return now, 0 if head is None else head.revision


class EventRange(msgspec.Struct, frozen=True):
    """Which events of a session are wanted: the newest so many, those since a time, or all."""

    recent: int | None = None
    after: float | None = None


def event_range(config: GetSessionConfig | None) -> EventRange:
    """What a configuration asks for; ValueError for a negative number, as ADK says it."""
    if config is None:
        return EventRange()
    if config.num_recent_events is not None and config.num_recent_events < 0:
        raise ValueError("num_recent_events must be greater than or equal to 0.")
    recent = config.num_recent_events
    if recent is not None and recent > RECENT_MAX:
        recent = None
    return EventRange(recent, config.after_timestamp)


class LoadedSession(msgspec.Struct, frozen=True):
    session: Session
    revision: int
    state: dict[str, Any]
    events: list[Event]

    def as_adk(self, name: str, app: str, user: str) -> AdkSession:
        """ADK's own object, which knows what it has seen."""
        session = self.session
        seen = StorageMarker(session.id, session.incarnation, self.revision, session.updated_us)
        return _as_adk(seen, name, app, user, state=self.state, events=self.events)


async def load(
    store: AnyStore, id: str, app: str, user: str, wanted: EventRange
) -> LoadedSession | None:
    """The live session with this id in the store, or None.

    A few messages are read, and more when those are not enough, each time with everything else:
    the cost follows the answer, not the history, and the answer is of one moment.
    """
    tenant: Any = store.tenant
    around: list[Query[Any]] = [
        GetSession(tenant=tenant, id=id),
        GetHead(tenant=tenant, id=id),
        GetDocument(tenant=tenant, session=id, name="state"),
        *_layer_queries(tenant, app, user),
    ]
    last = FIRST_READ if wanted.recent is None and wanted.after is not None else wanted.recent
    while True:
        asked = [] if last == 0 else [ReadMessages(tenant=tenant, session=id, last=last)]
        found = await of(store.read(*around, *asked))
        session, head, document, of_app, of_user = found[: len(around)]
        if session is None or session.deleted_us is not None:
            return None
        messages = found[-1] if asked else []
        natives = natives_of(messages)
        if not last or len(messages) < last or _suffices(messages, natives, wanted):
            break
        last *= GROWTH
    revision = 0 if head is None else head.revision
    events = events_of(_cut(natives, wanted))
    return LoadedSession(session, revision, states.merged(document, of_app, of_user), events)


class ListedSession(msgspec.Struct, frozen=True, gc=False):
    """What a list needs of a session, and no more: there may be very many of them."""

    marker: StorageMarker
    name: str
    user: str


async def list_sessions(store: AnyStore, app: str, user: str | None) -> list[AdkSession]:
    """Every live session of an app, or of one of its users, with its state, without events."""
    where = {"app": app} if user is None else {"app": app, "user": user}
    found: dict[str, ListedSession] = {}
    async for one in each(store.sessions.iter(order="updated", **where)):
        if one.user is not None:
            # One that is changed meanwhile comes again, at its new place.
            found.pop(one.id, None)
            found[one.id] = ListedSession(_listed_marker(one), adk_id(one), one.user)
    values = await _states(store, app, user, found)
    return [
        _as_adk(one.marker, one.name, app, one.user, state=state)
        for one, state in zip(found.values(), values, strict=True)
    ]


async def _states(
    store: AnyStore, app: str, user: str | None, listed: dict[str, ListedSession]
) -> list[dict[str, Any]]:
    """The state of each, from one snapshot."""
    tenant: Any = store.tenant
    ids = tuple(listed)
    pages = (ids[first : first + DOCUMENTS_MAX] for first in range(0, len(ids), DOCUMENTS_MAX))
    asked = [GetDocuments(tenant=tenant, sessions=page, name="state") for page in pages]
    of_app, of_users, *found = await of(store.read(*_layer_queries(tenant, app, user), *asked))
    by_user: dict[str, list[Memory]] = defaultdict(list)
    for memory in of_users:
        by_user[memory.namespace[-1]].append(memory)
    documents: dict[str, bytes] = {id: data for page in found for id, data in page.items()}
    return [
        states.merged(documents.get(id), of_app, by_user[one.user]) for id, one in listed.items()
    ]


def _layer_queries(tenant: str, app: str, user: str | None) -> tuple[Query[list[Memory]], ...]:
    """The states of an app and of its user, or of all its users; complete."""
    spaces = (app_space(app), user_space(app, user))
    return tuple(SearchMemories(tenant=tenant, namespace=namespace_text(one)) for one in spaces)


def _listed_marker(session: Session) -> StorageMarker:
    return StorageMarker(session.id, session.incarnation, updated_us=session.updated_us)


def _as_adk(marker: StorageMarker, name: str, app: str, user: str, **fields: Any) -> AdkSession:
    updated = marker.updated_us / US_PER_S
    made = AdkSession(id=name, app_name=app, user_id=user, last_update_time=updated, **fields)
    set_marker(made, marker)
    return made


def _suffices(messages: list[Message], natives: list[dict[str, Any]], wanted: EventRange) -> bool:
    """Whether what is wanted is among it. The first may be the rest of an event of others."""
    if wanted.recent is None:
        return any(time_of(native) < (wanted.after or 0) for native in natives)
    return len(natives) - (origin(messages[0]) != ADK) >= wanted.recent


def _cut(natives: list[dict[str, Any]], wanted: EventRange) -> list[dict[str, Any]]:
    """The newest so many; of them what follows the last one that is older than the time."""
    if wanted.recent is not None:
        natives = natives[-wanted.recent :] if wanted.recent else []
    if wanted.after is None:
        return natives
    for n in range(len(natives) - 1, -1, -1):
        if time_of(natives[n]) < wanted.after:
            return natives[n + 1 :]
    return natives
