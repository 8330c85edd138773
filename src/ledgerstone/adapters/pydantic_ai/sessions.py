"""Sessions as more than one of these adapters reads them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ledgerstone import ids
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.codec import decode_json
from ledgerstone.commands.sessions import GetDocument, GetDocuments, GetHead, GetSession
from ledgerstone.records.sessions import Head, Session

APP = "pydantic-ai"
"""The app of their sessions."""
STEPS = "pydantic-ai.steps"
"""In a session's state: where a LedgerStepStore moved main, which is no other writer's doing."""
PAGE_MAX = 200

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class SessionReading:
    """A session, its head and its state at one moment; all empty when there is none to be seen."""

    session: Session | None
    head: Head | None = None
    state: dict[str, Any] = field(default_factory=dict)
    hidden: bool = False
    """Whether there is one, deleted or out of scope: its id is not free."""

    @property
    def commits(self) -> int:
        return 0 if self.head is None else self.head.revision

    @property
    def steps(self) -> dict[str, Any]:
        """Where steps moved main."""
        return {} if self.session is None else steps_of(self.state, self.session.id)


class Cache(Generic[K, V]):
    """So many values by key: the one that was put longest ago goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        # Taken out and put in again, since another thread may drop the oldest in between.
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def drop(self, key: K) -> None:
        self._values.pop(key, None)


def steps_of(state: dict[str, Any], session: str) -> dict[str, Any]:
    """Where steps moved main; those of a session that this one was copied from moved nothing."""
    steps: dict[str, Any] = state.get(STEPS) or {}
    return steps if steps.get("session") == session else {}


async def read_session(store: AnyStore, id: str, *queries: Any) -> tuple[SessionReading, list[Any]]:
    """Read a session, and what else is asked for, at one moment."""
    tenant, name = store.tenant or "", ids.check_id(id, "conversation_id")
    session, head, state, *more = await of(
        store.read(
            GetSession(tenant=tenant, id=name),
            GetHead(tenant=tenant, id=name),
            GetDocument(tenant=tenant, session=name, name="state"),
            *queries,
        )
    )
    if session is None or session.deleted_us is not None:
        return SessionReading(None, hidden=session is not None), more
    return SessionReading(session, head, {} if state is None else decode_json(state)), more


async def pages(
    store: AnyStore, user: str | None, *, first: int = PAGE_MAX, order: str = "-updated"
) -> AsyncIterator[list[Session]]:
    """The sessions of a user, or of all, in pages; the first of at most `first`."""
    where: dict[str, Any] = {"app": APP, "order": order, "limit": min(first, PAGE_MAX)}
    if user is not None:
        where["user"] = user
    cursor = None
    while True:
        page = await of(store.sessions.list(cursor=cursor, **where))
        if page.items:
            yield page.items
        if not page.has_more:
            return
        # Newer sessions may be no conversations at all, such as tasks: go on faster.
        cursor, where["limit"] = page.cursor, PAGE_MAX


async def read_page(store: AnyStore, page: Sequence[Session]) -> list[SessionReading]:
    """The sessions of a page with their heads and states, at one moment."""
    tenant, names = store.tenant or "", tuple(one.id for one in page)
    states, *heads = await of(
        store.read(
            GetDocuments(tenant=tenant, sessions=names, name="state"),
            *(GetHead(tenant=tenant, id=name) for name in names),
        )
    )
    return [
        SessionReading(
            session, head, decode_json(states[session.id]) if session.id in states else {}
        )
        for session, head in zip(page, heads, strict=True)
    ]
