"""Lists of conversations: a few readings, however many there are; no page is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai_harness.step_persistence.conversations import ConversationSummary

from ledgerstone import Store
from ledgerstone.adapters.pydantic_ai import LedgerSavedConversations, sessions
from ledgerstone.errors import InvalidValue

COUNT = 23


def asked(text: str) -> list[ModelMessage]:
    return [ModelRequest(parts=[UserPromptPart(text)])]


def filled(store: Store) -> LedgerSavedConversations:
    talks = LedgerSavedConversations(store, scope="ada")

    async def go() -> None:
        for n in range(COUNT):
            summary = ConversationSummary(id=f"c{n:02d}", workspace="/w", title=f"t{n}")
            await talks.save(summary=summary, messages=asked(f"question {n}"))

    asyncio.run(go())
    return talks


def test_pages(adapter_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    talks = filled(adapter_store)
    other = LedgerSavedConversations(adapter_store, scope="bob")
    monkeypatch.setattr(sessions, "PAGE_MAX", 5)

    async def go() -> None:
        names = [f"c{n:02d}" for n in reversed(range(COUNT))]
        assert [one.id for one in await talks.listing()] == names
        assert [one.id for one in await talks.listing(limit=4, offset=6)] == names[6:10]
        assert [one.id for one in await talks.listing(query="QUESTION 7")] == ["c07"]
        assert [one.id for one in await talks.records()] == names
        assert [one.id for one in await talks.records(limit=7)] == names[:7]
        # Archived last, changed last: the order is still that of what was said.
        await talks.set_archived(conversation_id="c03", archived=True)
        assert [one.id for one in await talks.listing(limit=3)] == names[:3]
        assert [one.id for one in await talks.listing(archived=True)] == ["c03"]
        assert len(await talks.listing(archived=False)) == COUNT - 1
        assert await other.listing() == []
        with pytest.raises(InvalidValue, match="limit"):
            await talks.records(limit=0)

    asyncio.run(go())


def test_one_reading_per_page(adapter_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    talks = filled(adapter_store)
    read, asks = adapter_store.read, []

    def counted(*queries: Any) -> Any:
        asks.append(len(queries))
        return read(*queries)

    monkeypatch.setattr(adapter_store, "read", counted)
    assert len(asyncio.run(talks.listing(limit=10))) == 10
    assert asks == [12]
