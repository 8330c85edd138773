"""Lists of conversations: a page of sessions at a time, each in one reading of the store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai_harness.step_persistence.conversations import (
    ConversationSummary,
    conversation_text,
)

from ledgerstone.adapters.faces import of
from ledgerstone.adapters.pydantic_ai import chains, summaries
from ledgerstone.adapters.pydantic_ai.heads import STATE, Heads, Place, begun
from ledgerstone.adapters.pydantic_ai.words import APP
from ledgerstone.codec import decode_json
from ledgerstone.commands.sessions import GetDocuments, GetHead
from ledgerstone.records.sessions import Session

PAGE_MAX = 200


async def listed(
    heads: Heads, query: str, limit: int, offset: int, archived: bool | None
) -> list[ConversationSummary]:
    """Summaries that fit, the latest activity first."""
    found: list[ConversationSummary] = []
    async for page in pages(heads, limit + offset + 1):
        for place in await _places(heads, page):
            if _is_listed(place, archived) and await _says(heads, place, query):
                found.append(summaries.of_place(place))
        # Activity is never later than the last change, which is what the pages go by.
        last = page[-1].updated_at
        if sum(one.updated_at > last for one in found) >= limit + offset:
            break
    found.sort(key=lambda one: (-one.updated_at.timestamp(), one.id))
    return found[offset : offset + limit]


async def pages(heads: Heads, size: int) -> AsyncIterator[list[Session]]:
    """The conversations in scope, those changed last first."""
    where: dict[str, Any] = {"app": APP, "limit": min(size, PAGE_MAX), "order": "-updated"}
    if heads.scope is not None:
        where["user"] = heads.scope
    cursor = None
    while True:
        page = await of(heads.store.sessions.list(cursor=cursor, **where))
        if page.items:
            yield page.items
        if not page.has_more:
            return
        cursor = page.cursor


async def _places(heads: Heads, page: list[Session]) -> list[Place]:
    tenant, names = heads.store.tenant or "", tuple(one.id for one in page)
    states, *found = await of(
        heads.store.read(
            GetDocuments(tenant=tenant, sessions=names, name="state"),
            *(GetHead(tenant=tenant, id=name) for name in names),
        )
    )
    places = [
        Place(session, head, decode_json(states[session.id]), ())
        for session, head in zip(page, found, strict=True)
        if session.id in states
    ]
    return [begun(one, {}) if one.copied else one for one in places]


def _is_listed(place: Place, archived: bool | None) -> bool:
    said = place.state.get(STATE, {}).get("summary")
    return said is not None and archived in (None, said["archived_at"] is not None)


async def _says(heads: Heads, place: Place, query: str) -> bool:
    """Whether a conversation, its name or its tags contain the words."""
    if not query:
        return True
    assert place.session is not None
    full = await heads.look(place.session.id, messages=True)
    messages, _ = await chains.show(heads.store, full.path)
    text = conversation_text(messages) + summaries.text(summaries.of_place(place))
    return query.casefold() in text.casefold()
