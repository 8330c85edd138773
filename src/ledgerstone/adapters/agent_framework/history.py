"""The history of agents as sessions of a store."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import Any, ClassVar, TypeAlias

from agent_framework import HistoryProvider, Message

from ledgerstone import ids
from ledgerstone.adapters import native_bytes
from ledgerstone.adapters.agent_framework import messages as form
from ledgerstone.adapters.native_bytes import ExtractedBytes
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, of, runs_async
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetHead
from ledgerstone.errors import InvalidValue, RevisionMoved
from ledgerstone.intake import checks
from ledgerstone.records.messages import Message as Stored
from ledgerstone.records.sessions import Session

APP = "agent-framework"
TRIES = 10
Identity: TypeAlias = tuple[Any, ...]


class LedgerHistoryProvider(HistoryProvider):
    """Loads and stores the messages of a session; every run adds its own in one commit.

    A transcript that is handed in again is known by its messages and not stored twice. `last`
    bounds how many messages a run is given; the whole history stays.
    """

    DEFAULT_SOURCE_ID: ClassVar[str] = "ledgerstone"

    def __init__(
        self,
        store: AnyStore,
        source_id: str | None = None,
        *,
        last: int | None = None,
        user: str | None = None,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
    ) -> None:
        super().__init__(
            source_id or self.DEFAULT_SOURCE_ID,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self._runner = StoreRunner(store)
        self._store = store
        self._last = None if last is None else checks.positive(last, "last")
        self._user = None if user is None else ids.check_id(user, "user")

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """What was said in a session, whichever framework it was said in."""
        return await self._get(session_of(session_id))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add messages in one commit; InvalidValue names the place of what cannot be stored."""
        name = session_of(session_id)
        kept = [form.keep(one, f"messages[{n}]") for n, one in enumerate(messages)]
        if kept:
            given = [_identity(one) for one in messages]
            await self._save(name, given, kept)

    @runs_async
    async def _get(self, session: str) -> list[Message]:
        if self._last is None:
            found = await of(self._store.messages.history(session))
        else:
            found = await of(self._store.messages.last(session, self._last))
            # A model refuses results of calls that it does not see.
            found = list(dropwhile(lambda one: one.role == "tool", found))
        return form.show(found, await native_bytes.get(self._store, found))

    @runs_async
    async def _save(
        self, session: str, given: list[Identity], kept: list[tuple[Stored, ExtractedBytes]]
    ) -> None:
        """Append what is new; looked at again when somebody else wrote in between."""
        tenant = self._store.tenant or ""
        made = Session(id=session, tenant=tenant, app=APP, user=self._user)
        # One more than came in shows whether the whole history could be in what came in.
        last = ReadMessages(tenant=tenant, session=session, last=len(kept) + 1)
        for left in range(TRIES, -1, -1):
            head, tail = await of(self._store.read(GetHead(tenant=tenant, id=session), last))
            shown = form.show(tail, await native_bytes.get(self._store, tail))
            fresh = kept[count_stored(shown, given) :]
            for _, taken in fresh:
                await native_bytes.put(self._store, taken)
            if not fresh:
                return
            turn = self._store.turns.begin(
                session,
                expected_revision=0 if head is None else head.revision,
                expected_incarnation=None if head is None else head.incarnation,
                create=made,
            )
            turn.add(*(one for one, _ in fresh))
            try:
                await of(turn.commit())
                return
            except RevisionMoved:
                if not left:
                    raise


def count_stored(tail: Sequence[Message], given: Sequence[Identity]) -> int:
    """How many of the messages that came in are the end of what is stored already.

    One repeated question without an id is taken for a new one: losing it would be worse.
    """
    names = [_identity(one) for one in tail]
    if not names:
        return 0
    doubtful = tail[-1].role == "user" and names[-1][0] != "id"
    for start in range(len(given) - len(names) + 1):
        if given[start : start + len(names)] == names:
            if start == 0 and len(names) == 1 and doubtful:
                break
            return start + len(names)
    for overlap in range(min(len(names), len(given)), 0, -1):
        if names[-overlap:] == given[:overlap] and not (overlap == 1 and doubtful):
            return overlap
    return 0


def _identity(one: Message) -> Identity:
    if one.message_id is not None:
        return ("id", str(one.message_id))
    return ("content", one.role, [content.to_dict() for content in one.contents])


def session_of(session_id: str | None) -> str:
    if session_id is None:
        raise InvalidValue("session_id", "a session with an id is needed to keep its history")
    return ids.check_id(session_id, "session_id")
