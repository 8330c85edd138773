"""What the tests of LedgerConversationStore share: something said, and how it is found again."""

from __future__ import annotations

from typing import Any

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationRecord
from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

from ledgerstone import Store
from ledgerstone.adapters.pydantic_ai import LedgerConversationStore


def ask(*texts: str) -> list[ModelMessage]:
    return [ModelRequest(parts=[UserPromptPart(text)]) for text in texts]


def talk(*texts: str, id: str = "c") -> Conversation:
    return Conversation(conversation_id=id, messages=ask(*texts))


async def loaded(store: LedgerConversationStore, id: str = "c", **how: Any) -> Conversation:
    found = await store.load(id, **how)
    assert found is not None
    return found


async def recorded(store: LedgerConversationStore, id: str = "c") -> ConversationRecord:
    found = await store.read_record(id)
    assert found is not None
    return found


def texts(store: Store, id: str = "c") -> list[str]:
    return [one.text for one in store.messages.history(id)]
