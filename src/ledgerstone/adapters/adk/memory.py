"""ADK's memory service: what sessions left, found again by words or by vectors."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, TypeAlias

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session as AdkSession
from google.genai import types
from pydantic_core import PydanticSerializationError

from ledgerstone import ids
from ledgerstone.adapters.adk.keys import memory_space
from ledgerstone.adapters.adk.states import check_free
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, each, of, runs_async
from ledgerstone.clock import to_datetime
from ledgerstone.codec import encode_json
from ledgerstone.commands.memories import GetMemories, MemoryName
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.memories import memory_key, namespace_text
from ledgerstone.records.memories import Memory, Remember

RESULTS = 10
BATCH = 500
GONE: dict[str, Any] = {"gone": True}
"""What stays of a deleted memory: adding its session again must not bring it back."""

_WORD = re.compile(r"\w+")

Made: TypeAlias = list[tuple[str, dict[str, Any]]]
"""Memories by their keys."""
Vectors: TypeAlias = Sequence[Sequence[float]]
Embed: TypeAlias = Callable[[list[str]], Vectors | Awaitable[Vectors]]


class LedgerMemoryService(BaseMemoryService):
    """Memories of ADK's users in a sync or async store.

    Found by the words they share with the query, as ADK's own service does it; with `embed`, which
    makes vectors of texts, by vector. `model` names its space of vectors, `results` bounds an
    answer. A memory is of one event and is kept once, however often its session is added.
    """

    def __init__(
        self,
        store: AnyStore,
        *,
        embed: Embed | None = None,
        model: str = "",
        results: int = RESULTS,
    ) -> None:
        self._store = store
        self._runner = StoreRunner(store)
        self._embed = embed
        self._model = model
        self._results = checks.positive(results, "results")

    async def add_session_to_memory(self, session: AdkSession) -> None:
        """Remember what was said; again, only what is new of it."""
        await self.add_events_to_memory(
            app_name=session.app_name,
            user_id=session.user_id,
            events=session.events,
            session_id=session.id,
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember some events; `custom_metadata` is kept with each, its ttl_s ends them."""
        space, metadata = memory_space(app_name, user_id), _metadata(custom_metadata)
        made = []
        for n, event in enumerate(events):
            value = _value_of(event, n, session_id, metadata)
            if value is not None:
                made.append((ids.derive("event", session_id or "", event.id), value))
        await self._keep(space, made, metadata, if_absent=True)

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Remember what was put into words already; it takes the place of one with the same id.

        One without an id is known by its content.
        """
        space, metadata = memory_space(app_name, user_id), _metadata(custom_metadata)
        made = []
        for n, entry in enumerate(memories):
            check_free(entry.custom_metadata, f"memories[{n}].custom_metadata")
            value = {
                "content": _content(entry.content),
                "author": entry.author,
                "timestamp": entry.timestamp,
                "metadata": {**metadata, **entry.custom_metadata},
                "place": n,
            }
            if entry.id:
                made.append((_key_of(entry.id), {**value, "id": entry.id}))
            else:
                made.append((_key_of(encode_json({**value, "place": 0}, "memory").decode()), value))
        await self._keep(space, made, metadata, if_absent=False)

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str
    ) -> SearchMemoryResponse:
        """The best few memories of this user in this app."""
        space = memory_space(app_name, user_id)
        if not query.strip():
            return SearchMemoryResponse()
        if self._embed is None:
            found = await self._by_words(space, query)
        else:
            vector = (await self._vectors([query]))[0]
            found = await self._by_vector(space, vector)
        return SearchMemoryResponse(memories=[_entry(one) for one in found])

    @runs_async
    async def delete_memory(
        self, *, app_name: str, user_id: str, memory_id: str | None = None
    ) -> None:
        """Forget one by the id that a search gave; adding its session does not bring it back."""
        if not memory_id:
            return
        space, keys = memory_space(app_name, user_id), [_key_of(memory_id)]
        with suppress(InvalidValue):  # What can be no key is an id that somebody gave.
            keys.append(memory_key(memory_id))
        for key in keys:
            if await of(self._store.memories.get(space, key)) is not None:
                await of(self._store.memories.put(space, key, GONE))

    async def _keep(
        self,
        space: tuple[str, ...],
        made: Made,
        metadata: dict[str, Any],
        *,
        if_absent: bool,
    ) -> None:
        ttl_s = metadata.get("ttl_s")
        for first in range(0, len(made), BATCH):
            part = made[first : first + BATCH]
            if self._embed is not None and if_absent:
                part = await self._absent(space, part)
            vectors: Sequence[Any] = [None] * len(part)
            if self._embed is not None and part:
                vectors = await self._vectors([_text(value) for _, value in part])
            changes = [
                Remember(space, key, value, ttl_s, vector, self._model, if_absent=if_absent)
                for (key, value), vector in zip(part, vectors, strict=True)
            ]
            if changes:
                await self._put(changes)

    @runs_async
    async def _put(self, changes: list[Remember]) -> None:
        await of(self._store.memories.batch(changes))

    @runs_async
    async def _absent(self, space: tuple[str, ...], made: Made) -> Made:
        """What is not there yet: vectors are not made for nothing."""
        tenant: Any = self._store.tenant
        names = tuple(MemoryName(namespace_text(space), key) for key, _ in made)
        (found,) = await of(self._store.read(GetMemories(tenant=tenant, names=names)))
        return [one for one, known in zip(made, found, strict=True) if known is None]

    async def _vectors(self, texts: list[str]) -> Vectors:
        assert self._embed is not None
        found = await of(self._embed(texts))
        if len(found) != len(texts):
            raise InvalidValue("embed", f"{len(texts)} vectors expected, got {len(found)}")
        return found

    @runs_async
    async def _by_vector(self, space: tuple[str, ...], vector: Sequence[float]) -> list[Memory]:
        memories, model = self._store.memories, self._model
        return await of(memories.search(space, vector=vector, model=model, limit=self._results))

    @runs_async
    async def _by_words(self, space: tuple[str, ...], query: str) -> list[Memory]:
        wanted = _words(query)
        found = []
        async for memory in each(self._store.memories.iter(space)):
            shared = _score(wanted, _text(memory.value))
            if shared:
                value = memory.value
                order = (-shared, value.get("at", 0), memory.created_us, value.get("place", 0))
                found.append((order, memory.key, memory))
        return [memory for *_, memory in sorted(found)[: self._results]]


def _value_of(
    event: Event, n: int, session_id: str | None, metadata: dict[str, Any]
) -> dict[str, Any] | None:
    """What is remembered of an event; None when nothing in it can be found again."""
    if event.content is None or not event.content.parts:
        return None
    value = {
        "content": _content(event.content),
        "author": event.author,
        "timestamp": _moment(event.timestamp, f"events[{n}].timestamp"),
        "at": event.timestamp,
        "session": session_id,
        "metadata": metadata,
        "place": n,
    }
    return value if _text(value).strip() else None


def _key_of(id: str) -> str:
    """The key of a memory that was given an id, or of what identifies it."""
    return ids.derive("memory", id)


def _moment(at: float, field: str) -> str:
    try:
        return to_datetime(int(at * 1_000_000)).isoformat()
    except (OverflowError, ValueError):
        raise InvalidValue(field, f"{at} is no time") from None


def _metadata(given: Mapping[str, object] | None) -> dict[str, Any]:
    found = dict(given or {})
    check_free(found, "custom_metadata")
    return found


def _content(content: types.Content) -> dict[str, Any]:
    try:
        found: dict[str, Any] = content.model_dump(mode="json", by_alias=True, exclude_none=True)
    except PydanticSerializationError as error:
        raise InvalidValue("content", str(error)) from None
    return found


def _words(text: str) -> set[str]:
    return set(_WORD.findall(_plain(text)))


def _score(wanted: set[str], text: str) -> int:
    """How many of the wanted words are in a text."""
    plain = _plain(text)
    there = _words(text)
    for word in list(there):
        if not word.isascii():
            # Scripts without spaces: a Latin word among them is a word by itself.
            there |= {"".join(run) for _, run in groupby(word, _is_latin)}
    return sum(word in there or (not word.isascii() and word in plain) for word in wanted)


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).lower()


def _is_latin(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith("LATIN")


def _text(value: dict[str, Any]) -> str:
    parts = value.get("content", {}).get("parts") or []
    return " ".join(part["text"] for part in parts if part.get("text"))


def _entry(memory: Memory) -> MemoryEntry:
    value = memory.value
    return MemoryEntry(
        id=value.get("id") or memory.key,
        content=types.Content.model_validate(value["content"]),
        author=value.get("author"),
        timestamp=value.get("timestamp"),
        custom_metadata=value.get("metadata") or {},
    )
