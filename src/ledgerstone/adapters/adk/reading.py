"""A session as ADK wants it, read from one snapshot."""

from __future__ import annotations

from typing import Any

import msgspec
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session as AdkSession

from ledgerstone.adapters.adk import marks, states
from ledgerstone.adapters.adk.events import US_PER_S, events_of, times_of
from ledgerstone.adapters.adk.keys import app_space, user_space
from ledgerstone.adapters.adk.marks import Seen
from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.commands import Query
from ledgerstone.commands.memories import SearchMemories
from ledgerstone.commands.nodes import ListMessages, ReadMessages
from ledgerstone.commands.sessions import GetDocument, GetHead, GetSession
from ledgerstone.intake.memories import namespace_text
from ledgerstone.records.memories import Memory
from ledgerstone.records.sessions import Session

PAGE = 200


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
    return Wanted(config.num_recent_events, config.after_timestamp)


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
    """The live session with this id in the store, or None."""
    tenant: Any = store.tenant
    queries: list[Query[Any]] = [
        GetSession(tenant=tenant, id=id),
        GetHead(tenant=tenant, id=id),
        GetDocument(tenant=tenant, session=id, name="state"),
        *layer_queries(tenant, app, user),
    ]
    if want.recent != 0:
        queries.append(_messages(tenant, id, want))
    session, head, document, of_app, of_user, *more = await of(store.read(*queries))
    if session is None or session.deleted_us is not None:
        return None
    events: list[Event] = []
    if more:
        page = more[0]
        if isinstance(page, list):
            events = events_of(page)
        else:
            events = await _since(store, id, page, want)
    return Found(
        session,
        0 if head is None else head.revision,
        states.merged(document, of_app, of_user),
        _cut(events, want),
    )


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


def _messages(tenant: str, id: str, want: Wanted) -> Query[Any]:
    if want.after is not None and want.recent is None:
        return ListMessages(tenant=tenant, session=id, newest_first=True, limit=PAGE)
    return ReadMessages(tenant=tenant, session=id, last=want.recent)


async def _since(store: AnyStore, id: str, page: Any, want: Wanted) -> list[Event]:
    """Newest first until one is older: the cost follows the answer, not the history."""
    tenant: Any = store.tenant
    found = list(page.items)
    while page.has_more and not _reaches(page.items, want):
        last = page.items[-1]
        query = ListMessages(
            tenant=tenant, session=id, newest_first=True, limit=PAGE, after=(last.seq, last.ord)
        )
        (page,) = await of(store.read(query))
        found += page.items
    return events_of(reversed(found))


def _reaches(items: list[Any], want: Wanted) -> bool:
    """Whether a page has an event before the wanted time."""
    return any(at < (want.after or 0) for at in times_of(reversed(items)))


def _cut(events: list[Event], want: Wanted) -> list[Event]:
    """The newest so many; of them what follows the last one that is older than the time."""
    if want.recent is not None:
        events = events[-want.recent :] if want.recent else []
    if want.after is None:
        return events
    for n in range(len(events) - 1, -1, -1):
        if events[n].timestamp < want.after:
            return events[n + 1 :]
    return events
