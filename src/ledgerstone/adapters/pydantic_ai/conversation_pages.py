"""Records of many conversations: a page of sessions at a time, each in two readings at most."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from pydantic_ai.conversation_store import ConversationRecord

from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.adapters.pydantic_ai.conversation_records import Place, last_message
from ledgerstone.adapters.pydantic_ai.words import APP
from ledgerstone.codec import decode_json
from ledgerstone.commands.sessions import GetDocuments, GetHead
from ledgerstone.records.sessions import Session

PAGE_MAX = 200


async def records(
    store: AnyStore, scope: str | None, limit: int | None
) -> list[ConversationRecord]:
    """The records in scope, or the newest so many; those saved last first."""
    found: list[ConversationRecord] = []
    async for page in _pages(store, scope, limit):
        places = await _places(store, page)
        found += [record for place in places if (record := place.record) is not None]
        # A save is never later than the last change, which is what the pages go by.
        last = page[-1].updated_at
        if limit is not None and sum(one.updated_at > last for one in found) >= limit:
            break
    found.sort(key=lambda one: one.updated_at, reverse=True)
    return found[:limit]


async def _pages(
    store: AnyStore, scope: str | None, limit: int | None
) -> AsyncIterator[list[Session]]:
    """Sessions that were changed last first; all of them in an order that no change disturbs."""
    where: dict[str, Any] = {"app": APP, "order": "-created", "limit": PAGE_MAX}
    if limit is not None:
        where |= {"order": "-updated", "limit": min(limit + 1, PAGE_MAX)}
    if scope is not None:
        where["user"] = scope
    cursor = None
    while True:
        page = await of(store.sessions.list(cursor=cursor, **where))
        if page.items:
            yield page.items
        if not page.has_more:
            return
        # Newer sessions may be no conversations at all, such as tasks: go on faster.
        cursor, where["limit"] = page.cursor, PAGE_MAX


async def _places(store: AnyStore, page: list[Session]) -> list[Place]:
    tenant, names = store.tenant or "", tuple(one.id for one in page)
    states, *heads = await of(
        store.read(
            GetDocuments(tenant=tenant, sessions=names, name="state"),
            *(GetHead(tenant=tenant, id=name) for name in names),
        )
    )
    places = [
        Place(session, head, decode_json(states[session.id]) if session.id in states else {})
        for session, head in zip(page, heads, strict=True)
    ]
    # The last message says something only where somebody else wrote, or deleted.
    others = [n for n, one in enumerate(places) if (one.cut or not one.holds) and one.stood]
    asked = await of(store.read(*(last_message(store, places[n]) for n in others)))
    for n, last in zip(others, asked, strict=True):
        places[n] = replace(places[n], last=last[0] if last else None)
    return places
