"""The record of a conversation in the state of its session, and what others made of it since.

A conversation is a session, and its history ends where main ends. What pydantic-ai knows beyond
messages is written by the commit that writes them:

    {"session": id, "leaf": where main ended then, "head_id": .., "revision": .., "usage": ..}

As long as main ends there, the record holds, whatever else is committed to the session. When
another framework went on from there, the record is made of what stands, and its revision says
where main ends now: who did not see that cannot overwrite it. The name in it tells a copy of the
session, which knows only what is true of itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_ai.conversation_store import ConversationRecord

from ledgerstone import formats, ids
from ledgerstone.adapters.pydantic_ai.chains import FORMAT, first_fault
from ledgerstone.adapters.pydantic_ai.sessions import (
    PAGE_MAX,
    SessionReading,
    pages,
    read_page,
    read_session,
)
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Session

STATE = "pydantic-ai.conversation"
SAVED = "pydantic-ai"
ELSEWHERE = "\0"
"""Where main stands when it is at no entry of the conversation; no id is like that."""

_ADAPTER = TypeAdapter(ConversationRecord)
_OWN = {"conversation_id", "scope"}
_CARRIED = {"usage": "usage", "deferred_tool_requests": "deferred"}
"""What is of a history and not of a session, here and in LedgerSavedConversations."""
_UUID_CHARS = 36


@dataclass(frozen=True)
class RecordState(SessionReading):
    """A reading of a session, and what makes a record of it."""

    last: Message | None = None
    """The last message up to where main ended, see `leaf_before_steps`."""

    @property
    def leaf(self) -> str | None:
        return None if self.head is None else self.head.leaf

    @property
    def known(self) -> dict[str, Any]:
        """What was kept, here or in the session that this one was copied from."""
        return self.state.get(STATE) or {}

    @property
    def is_ours(self) -> bool:
        return self.session is not None and self.known.get("session") == self.session.id

    @property
    def leaf_before_steps(self) -> str | None:
        """Where main ends, or ended before the steps of runs moved it."""
        steps = self.steps
        return steps["from"] if steps and steps["leaf"] == self.leaf else self.leaf

    @property
    def is_current(self) -> bool:
        """Whether what was kept is still so."""
        return self.is_ours and self.known["leaf"] == self.leaf_before_steps

    @property
    def is_end_deleted(self) -> bool:
        """Whether the end of main was deleted."""
        return self.head is not None and self.head.effective_leaf != self.leaf

    @property
    def needs_last(self) -> bool:
        """Whether others wrote, or the end was deleted: then the last message says something."""
        return bool((self.is_end_deleted or not self.is_current) and self.leaf_before_steps)

    @property
    def tail(self) -> str | None:
        """The entry that whatever is added to main follows, or ELSEWHERE."""
        if self.leaf_before_steps != self.leaf:
            return ELSEWHERE
        return None if self.record is None else self.record.head_id

    @cached_property
    def record(self) -> ConversationRecord | None:
        """The record; None for what is no conversation yet: nothing was said, or only by steps."""
        if self.session is None or not (self.is_ours or self.last):
            return None
        fixed: dict[str, Any] = {"conversation_id": self.session.id, "scope": self.session.user}
        head = None if self.last is None else entry_id(self.last)
        if self.is_current and not self.is_end_deleted:
            return self._read({**self.known, **fixed})
        if self.is_ours and not self._waits(head):
            fixed["deferred_tool_requests"] = None
        if self.is_current:
            return self._read({**self.known, **fixed, "head_id": head})
        before = self.known["revision"] if self.is_ours else self.session.incarnation
        derived = {
            **(self.known if self.is_ours else self._inherited(head)),
            **fixed,
            "head_id": head,
            "revision": f"{before}.{self.leaf_before_steps}",
            "updated_at": self.session.updated_at,
        }
        return self._read(derived)

    def _waits(self, head: str | None) -> bool:
        """Whether calls may still wait where main was moved: not if they went, or after an answer.

        The library takes results as long as only requests follow the response with the calls.
        """
        asks = self.last is not None and self.last.role != "assistant"
        return head == self.known["head_id"] or (asks and not self.is_end_deleted)

    def _inherited(self, head: str | None) -> dict[str, Any]:
        """What a copy knows of itself, or what LedgerSavedConversations knew of it."""
        known = self.known
        if not known:
            saved = self.state.get(SAVED, {}).get("heads", {}).get("main", {})
            named = {name: saved.get(theirs) for name, theirs in _CARRIED.items()}
            # Without a value it is as in a new one.
            return {name: one for name, one in named.items() if one and saved["leaf"] == self.leaf}
        carried = {name: known[name] for name in _CARRIED} if known["leaf"] == self.leaf else {}
        # If others wrote to it since, nobody knows where it began.
        begun = head if self.commits == 1 else None
        return {"forked_from": known["session"], "forked_at": begun, **carried}

    def _read(self, said: dict[str, Any]) -> ConversationRecord:
        try:
            return _ADAPTER.validate_python(
                {name: one for name, one in said.items() if name not in ("session", "leaf")}
            )
        except ValidationError as error:
            spot, reason = first_fault(error)
            where = ".".join((STATE, *spot))
            raise Corrupt("documents", said["conversation_id"], where, reason) from None


def stored(record: ConversationRecord, leaf: str | None) -> dict[str, Any]:
    """What is kept of a record in a session's state; InvalidValue for what JSON cannot say."""
    if record.updated_at.tzinfo is None:
        raise InvalidValue("updated_at", "a time with its zone expected, as lists go by it")
    try:
        said = _ADAPTER.dump_python(record, mode="json", exclude=_OWN)
        # What cannot be read would hide the conversation, and every list that it is in.
        _ADAPTER.validate_python({**said, "conversation_id": record.conversation_id})
    except ValidationError as error:
        spot, reason = first_fault(error)
        raise InvalidValue(".".join(("record", *spot)), reason) from None
    except ValueError as error:
        raise InvalidValue("record", str(error)) from None
    return {STATE: {**said, "session": record.conversation_id, "leaf": leaf}}


async def look(store: AnyStore, id: str) -> RecordState:
    """How a conversation stands, in one reading."""
    last = ReadMessages(tenant=store.tenant or "", session=id, last=1)
    found, (path,) = await read_session(store, id, last)
    if found.session is None:
        return RecordState(None, hidden=found.hidden)
    current = RecordState(found.session, found.head, found.state, last=path[0] if path else None)
    if current.leaf_before_steps == current.leaf:
        return current
    if current.leaf_before_steps is None:
        return replace(current, last=None)
    (path,) = await of(store.read(last_message(store, current)))
    return replace(current, last=path[0] if path else None)


async def records(
    store: AnyStore, scope: str | None, limit: int | None
) -> list[ConversationRecord]:
    """The records in scope, or the newest so many; those saved last first."""
    found: list[ConversationRecord] = []
    # All of them are read in an order that no change disturbs.
    first, order = (PAGE_MAX, "-created") if limit is None else (limit + 1, "-updated")
    async for page in pages(store, scope, first=first, order=order):
        states = await _states(store, page)
        found += [record for current in states if (record := current.record) is not None]
        # A save is never later than the last change, which is what the pages go by.
        last = page[-1].updated_at
        if limit is not None and sum(one.updated_at > last for one in found) >= limit:
            break
    found.sort(key=lambda one: one.updated_at, reverse=True)
    return found[:limit]


async def _states(store: AnyStore, page: list[Session]) -> list[RecordState]:
    """The conversations of a page, in two readings at most."""
    states = [RecordState(one.session, one.head, one.state) for one in await read_page(store, page)]
    others = [n for n, one in enumerate(states) if one.needs_last]
    asked = await of(store.read(*(last_message(store, states[n]) for n in others)))
    for n, last in zip(others, asked, strict=True):
        states[n] = replace(states[n], last=last[0] if last else None)
    return states


def last_message(store: AnyStore, current: RecordState) -> ReadMessages:
    """What asks for the last message up to where main stood."""
    assert current.session is not None
    tenant = store.tenant or ""
    return ReadMessages(
        tenant=tenant, session=current.session.id, at=current.leaf_before_steps, last=1
    )


def entry_id(one: Message) -> str:
    """The entry of a message: its own id, with its session if that may have a namesake.

    Entries are found by their id alone, and what other frameworks call "1" is in many sessions.
    """
    if formats.origin(one) == FORMAT or _is_uuid(one.id):
        return one.id
    return json.dumps([one.session, one.id])


def inner_id(one: Message, n: int) -> str:
    """The entry of what a message of another framework says before its end."""
    return json.dumps([one.session, one.id, n])


def node_of(entry: str) -> tuple[str | None, str]:
    """The session of an entry, if it tells, and its node; InvalidValue if no node ends there."""
    parts = _parts(entry)
    if len(parts) == 3:
        raise InvalidValue("entry_id", "inside a message of another framework; take one beside it")
    session, id = parts if len(parts) == 2 else (None, entry)
    return session, ids.check_id(id, "entry_id")


def check_entry(id: str) -> None:
    """InvalidValue for what cannot be the id of a new entry."""
    ids.check_id(id, "entry_id")
    if _parts(id):
        raise InvalidValue("entry_id", f"{id!r} reads like an entry of another framework")


def _parts(entry: object) -> list[Any]:
    if not isinstance(entry, str) or not entry.startswith('["'):
        return []
    try:
        parts = json.loads(entry)
    except ValueError:
        return []
    named = len(parts) in (2, 3) and all(isinstance(one, str) for one in parts[:2])
    return parts if named else []


def _is_uuid(id: str) -> bool:
    return len(id) == _UUID_CHARS and [id[n] for n in (8, 13, 18, 23)] == ["-"] * 4
