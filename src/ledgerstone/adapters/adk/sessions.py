"""ADK's session service: a session is a session, an event is a message, an append is a commit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session as AdkSession
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.adapters.adk import events, reading, states
from ledgerstone.adapters.adk.keys import metadata_of, name_of, store_id, stored_id, user_space
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, each, of, runs_async
from ledgerstone.errors import (
    AlreadyExists,
    RevisionMoved,
    SessionDeleted,
    SessionNotFound,
    TurnConflict,
)
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import TurnCommitted

_held: ContextVar[Mapping[tuple[int, str], AnyLease]] = ContextVar(
    "leases", default=MappingProxyType({})
)
"""Leases by service and session. Of a task, not of the service: a holder that lost its session
must not go on under the lease of the next one."""


class LedgerSessionService(BaseSessionService):
    """Sessions of ADK in a sync or async store.

    `unowned`: sessions that name no user, as other frameworks make them, open for every user by
    their id in the store; those that name this user always do.
    """

    def __init__(self, store: AnyStore, *, unowned: bool = False) -> None:
        self._store = store
        self._runner = StoreRunner(store)
        self._unowned = unowned
        self._waiting: dict[tuple[int, str], tuple[asyncio.Lock, int]] = {}

    @runs_async
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> AdkSession:
        """A new session with its state, in one commit. AlreadyExistsError, InvalidValue."""
        name = name_of(session_id) or ids.new_id()
        id = store_id(app_name, user_id, name)
        values = states.json_state(state)
        if await self._stored_id(app_name, user_id, name) != id:
            # A fork, or another framework's: a new one would hide it behind its own id.
            raise AlreadyExistsError(f"Session with id {name} already exists.")
        made = Session(id=id, user=user_id, app=app_name, metadata=metadata_of(id, name))
        turn = self._store.turns.begin(self._target(id), create=made, expected_incarnation=0)
        turn.warns = False
        states.put(turn, app_name, user_id, values)
        try:
            answer: TurnCommitted = await of(turn.commit())
        except (AlreadyExists, RevisionMoved, SessionDeleted) as error:
            raise AlreadyExistsError(f"Session with id {name} already exists.") from error
        found = await reading.load(self._store, id, app_name, user_id, reading.EventRange(recent=0))
        if found is None:  # Deleted again by somebody else.
            raise SessionNotFoundError(f"Session {name} not found.")
        # Of the commit: what somebody else did since, this object has not seen.
        return replace(found, revision=answer.revision).as_adk(name, app_name, user_id)

    @runs_async
    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> AdkSession | None:
        """The session with the events that are asked for, or None; from one snapshot."""
        wanted = reading.event_range(config)
        name = name_of(session_id)
        if not name:
            return None
        id = store_id(app_name, user_id, name)
        found = await reading.load(self._store, id, app_name, user_id, wanted)
        if found is None:
            other = await self._stored_id(app_name, user_id, name)
            if other != id:
                found = await reading.load(self._store, other, app_name, user_id, wanted)
        return None if found is None else found.as_adk(name, app_name, user_id)

    async def _stored_id(self, app: str, user: str, name: str) -> str:
        return await stored_id(self._store, app, user, name, unowned=self._unowned)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Every session of the app, or of its user, with its state; changed last, listed last."""
        found = await self._runner.run_async(reading.list_sessions(self._store, app_name, user_id))
        return ListSessionsResponse(sessions=found)

    @runs_async
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove it for good, with its events and artifacts; the other states stay."""
        name = name_of(session_id)
        if name:
            await of(self._store.sessions.purge(await self._stored_id(app_name, user_id, name)))

    @runs_async
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """What a user's sessions of the app share, complete, with keys as they are."""
        found = self._store.memories.iter(user_space(app_name, user_id))
        return {memory.key: memory.value async for memory in each(found)}

    async def append_event(self, session: AdkSession, event: Event) -> Event:
        """Store an event with its changes of state, in one commit; the same event only once.

        Nothing is stored of a partial event. StaleSessionError when the session was changed since
        this object saw it, SessionNotFoundError, InvalidValue naming what cannot be stored.
        """
        if event.partial:
            return event
        if not event.id:
            event.id = Event.new_id()
        async with self._alone(session):
            return await _finished(asyncio.ensure_future(self._store_event(session, event)))

    async def _store_event(self, session: AdkSession, event: Event) -> Event:
        stored = await self._runner.run_async(self._append(session, event))
        if stored is None:
            return event
        reading.set_marker(session, stored)
        session.last_update_time = stored.updated_us / events.US_PER_S
        return await super().append_event(session, event)

    async def _append(self, session: AdkSession, event: Event) -> reading.StorageMarker | None:
        """What the object has seen with this event; None when it was stored before."""
        message = events.message_of(events.native_of(event))
        # Not as the event has it: there a None within a model is left out.
        delta = states.json_state(event.actions.state_delta)
        known = reading.marker_of(session)
        if known is None:
            id = await self._stored_id(session.app_name, session.user_id, name_of(session.id))
        else:
            id = known.id
        try:
            seen, revision = await reading.checked_marker(self._store, session, id)
            answer = await self._commit(session, seen, revision, message, delta)
        except (StaleSessionError, AlreadyExistsError):
            if await self._has(id, message):
                return None
            raise
        if answer.replayed and answer.revision != revision + 1:
            # Among what the object knows, or beyond more that it has not seen.
            return None
        # As a read finds it: the time of a session never goes back.
        updated_us = max(seen.updated_us, answer.created_us)
        return reading.StorageMarker(seen.id, seen.incarnation, answer.revision, updated_us)

    async def _commit(
        self,
        session: AdkSession,
        seen: reading.StorageMarker,
        revision: int,
        message: Message,
        delta: dict[str, Any],
    ) -> TurnCommitted:
        turn = self._store.turns.begin(
            self._target(seen.id),
            id=ids.derive("adk", message.id),
            expected_revision=revision,
            expected_incarnation=seen.incarnation,
        )
        turn.warns = False
        turn.add(message)
        states.put(turn, session.app_name, session.user_id, delta)
        if message.usage is not None:
            # It was used already: a budget cannot take it back, but the next call meets it.
            turn.use(message.body.model or "unknown", message.usage, over_budget=True)
        try:
            return await of(turn.commit())
        except (SessionNotFound, SessionDeleted) as error:
            raise SessionNotFoundError(f"Session {session.id} not found.") from error
        except RevisionMoved as error:
            raise StaleSessionError(reading.STALE) from error
        except (AlreadyExists, TurnConflict) as error:
            raise AlreadyExistsError(f"Event {message.id} exists with other content.") from error

    async def _has(self, id: str, message: Message) -> bool:
        """Whether this very event is stored: an import or a fork brought it, no append of ours."""
        stored = await of(self._store.messages.get(message.id, session=id))
        if stored is None:
            return False
        there, given = (events.events_of(events.natives_of([one])) for one in (stored, message))
        return there == given

    async def flush(self) -> None:
        """Nothing waits: an append that returned is on disk."""

    @contextmanager
    def under(self, lease: AnyLease) -> Iterator[None]:
        """Within the block, appends to the lease's session are fenced by it.

        async with store.leases.hold(store_id(app, user, id)) as lease: with service.under(lease)

        It holds for this task and what that starts: others of the service need their own lease.
        """
        token = _held.set({**_held.get(), (id(self), lease.session): lease})
        try:
            yield
        finally:
            _held.reset(token)

    def _target(self, session: str) -> Any:
        return _held.get().get((id(self), session), session)

    @asynccontextmanager
    async def _alone(self, session: AdkSession) -> AsyncIterator[None]:
        """Appends to one session wait for each other: the second needs what the first learned."""
        name = store_id(session.app_name, session.user_id, session.id)
        key = (id(asyncio.get_running_loop()), name)
        lock, users = self._waiting.get(key, (asyncio.Lock(), 0))
        self._waiting[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._waiting.pop(key)
            if users > 1:
                self._waiting[key] = (lock, users - 1)


async def _finished(storing: asyncio.Future[Event]) -> Event:
    """The event, when it is stored; whoever is cancelled leaves then, however often he is told.

    It may be in the store already: the object must know before others go on with it.
    """
    cancelled: asyncio.CancelledError | None = None
    while not storing.done():
        try:
            await asyncio.wait([storing])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return storing.result()
    if not storing.cancelled():
        storing.exception()  # Looked at: nobody else will.
    raise cancelled
