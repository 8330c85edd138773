"""A session as ADK wants it, read from one snapshot."""

from __future__ import annotations

from typing import Any

import msgspec
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session as AdkSession

from ledgerstone.adapters.adk import marks, states
from ledgerstone.adapters.adk.events import US_PER_S, events_of, natives_of, time_of
from ledgerstone.adapters.adk.keys import ADK, app_space, user_space
from ledgerstone.adapters.adk.marks import Seen
from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.commands import Query
from ledgerstone.commands.memories import SearchMemories
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetDocument, GetHead, GetSession
from ledgerstone.formats import origin
from ledgerstone.intake.memories import namespace_text
from ledgerstone.records.memories import Memory
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Session

RECENT_MAX = 1 << 62
"""More events than a database can count to are asked for as all."""
FEW, MORE = 50, 4
"""So many messages are asked for first when a time is given, and so many times as many then."""


class Wanted(msgspec.Struct, frozen=True):
    """Which events of a session are wanted: the newest so many, those since a time, or all."""

    recent: int | None = None
    after: float | None = None


def wanted(config: GetSessionConfig | None) -> Wanted:
    """What a configuration asks for; ValueError for a negative number, as ADK says it."""
    if config is None:
        return Wanted()
    if config.num_recent_events is not None and config.num_recent_events < 0:
        raise ValueError("num_recent_events must be greater than or equal to 0.")
    recent = config.num_recent_events
    if recent is not None and recent > RECENT_MAX:
        recent = None
    return Wanted(recent, config.after_timestamp)


class Found(msgspec.Struct, frozen=True):
    """A session of the store with all that ADK shows of it."""

    session: Session
    revision: int
    state: dict[str, Any]
    events: list[Event]

    def as_adk(self, name: str, app: str, user: str) -> AdkSession:
        """ADK's own object, which knows what it has seen."""
        session = self.session
        seen = Seen(session.id, session.incarnation, self.revision, session.updated_us)
        return as_adk(seen, name, app, user, state=self.state, events=self.events)


async def load(store: AnyStore, id: str, app: str, user: str, want: Wanted) -> Found | None:
    """The live session with this id in the store, or None.

    A few messages are read, and more when those are not enough, each time with everything else:
    the cost follows the answer, not the history, and the answer is of one moment.
    """
    tenant: Any = store.tenant
    around: list[Query[Any]] = [
        GetSession(tenant=tenant, id=id),
        GetHead(tenant=tenant, id=id),
        GetDocument(tenant=tenant, session=id, name="state"),
        *layer_queries(tenant, app, user),
    ]
    last = FEW if want.recent is None and want.after is not None else want.recent
    while True:
        asked = [] if last == 0 else [ReadMessages(tenant=tenant, session=id, last=last)]
        found = await of(store.read(*around, *asked))
        session, head, document, of_app, of_user = found[: len(around)]
        if session is None or session.deleted_us is not None:
            return None
        messages = found[-1] if asked else []
        natives = natives_of(messages)
        if not last or len(messages) < last or _suffices(messages, natives, want):
            break
        last *= MORE
    revision = 0 if head is None else head.revision
    events = events_of(_cut(natives, want))
    return Found(session, revision, states.merged(document, of_app, of_user), events)


def layer_queries(tenant: str, app: str, user: str | None) -> tuple[Query[list[Memory]], ...]:
    """The states of an app and of its user, or of all its users; complete."""
    spaces = (app_space(app), user_space(app, user))
    return tuple(SearchMemories(tenant=tenant, namespace=namespace_text(one)) for one in spaces)


def as_adk(seen: Seen, name: str, app: str, user: str, **fields: Any) -> AdkSession:
    """ADK's own object."""
    updated = seen.updated_us / US_PER_S
    made = AdkSession(id=name, app_name=app, user_id=user, last_update_time=updated, **fields)
    marks.put(made, seen)
    return made


def _suffices(messages: list[Message], natives: list[dict[str, Any]], want: Wanted) -> bool:
    """Whether what is wanted is among it. The first may be the rest of an event of others."""
    if want.recent is None:
        return any(time_of(native) < (want.after or 0) for native in natives)
    return len(natives) - (origin(messages[0]) != ADK) >= want.recent


def _cut(natives: list[dict[str, Any]], want: Wanted) -> list[dict[str, Any]]:
    """The newest so many; of them what follows the last one that is older than the time."""
    if want.recent is not None:
        natives = natives[-want.recent :] if want.recent else []
    if want.after is None:
        return natives
    for n in range(len(natives) - 1, -1, -1):
        if time_of(natives[n]) < want.after:
            return natives[n + 1 :]
    return natives
