"""Conversations with messages of other origins, and of older versions."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    BinaryContent,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.test import TestModel
from pydantic_ai_harness.step_persistence.conversations import ConversationConflict

from ledgerstone import AsyncStore, Store, assistant, user
from ledgerstone.adapters.pydantic_ai import LedgerSavedConversations, chains
from ledgerstone.records.parts import Image, Text
from tests.adapters.pydantic_ai.samples import PNG, on_store

AnyStore = Store | AsyncStore


def test_a_session_of_other_origin(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        said = [user("My name is Ada."), assistant("Hello Ada.")]
        made = store.messages.append("trip", *said, create=True)
        if not isinstance(made, list):
            await made
        conversations = LedgerSavedConversations(store)
        read = await conversations.read("trip")
        assert read is not None
        result = await Agent(TestModel()).run("and mine?", conversation=read.conversation)
        # A store that did not hand the messages out knows them as well.
        elsewhere = LedgerSavedConversations(store)
        stored = await elsewhere.write(result.conversation, expected_revision=read.revision)
        listed = store.messages.history("trip")
        history = listed if isinstance(listed, list) else await listed
        assert [one.text for one in history[:3]] == ["My name is Ada.", "Hello Ada.", "and mine?"]
        assert len(history) == 4
        # What was added behind the back of a writer is a conflict for it.
        more = store.messages.append("trip", user("wait"))
        if not isinstance(more, list):
            await more
        again = await Agent(TestModel()).run("so?", conversation=result.conversation)
        with pytest.raises(ConversationConflict, match="not seen"):
            await conversations.write(again.conversation, expected_revision=stored.revision)

    on_store(store_url, colour, work)


def test_a_picture_of_other_origin(adapter_store: Store) -> None:
    """A model is given the bytes, and the message stays the one it was."""
    ref = adapter_store.blobs.put(PNG, media_type="image/png").ref
    said = user(["look", Image(blob=ref, media_type="image/png")])
    adapter_store.messages.append("trip", said, create=True)
    conversations = LedgerSavedConversations(adapter_store)

    async def go() -> None:
        read = await conversations.read("trip")
        assert read is not None
        (question,) = read.conversation.messages
        (prompt,) = question.parts
        assert isinstance(prompt, UserPromptPart)
        (picture,) = [one for one in prompt.content if isinstance(one, BinaryContent)]
        assert picture.data == PNG
        result = await Agent(TestModel()).run("well?", conversation=read.conversation)
        await LedgerSavedConversations(adapter_store).write(
            result.conversation, expected_revision=read.revision
        )

    asyncio.run(go())
    assert adapter_store.messages.history("trip")[0].parts == said.parts
    assert adapter_store.messages.count("trip") == 3


def test_messages_of_an_older_version(
    adapter_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was stored without a field that there is now is still known for what it is."""
    talk = Conversation(
        messages=[ModelRequest(parts=[UserPromptPart("a")]), ModelResponse(parts=[TextPart("b")])],
        conversation_id="c",
    )
    dump = chains.dump

    def older(messages: Any) -> Any:
        return [{k: v for k, v in one.items() if k != "metadata"} for one in dump(messages)]

    monkeypatch.setattr(chains, "dump", older)
    asyncio.run(LedgerSavedConversations(adapter_store).write(talk, expected_revision=None))
    monkeypatch.undo()

    async def go() -> None:
        conversations = LedgerSavedConversations(adapter_store)
        read = await conversations.read("c")
        assert read is not None
        longer = replace(read.conversation, messages=[*read.conversation.messages, *talk.messages])
        await conversations.write(longer, expected_revision=read.revision)

    asyncio.run(go())
    head = adapter_store.sessions.head("c")
    assert head is not None
    assert head.nodes == 4


def test_messages_that_were_amended(adapter_store: Store) -> None:
    """They are read as they are now, also where bytes were, and stay the nodes they are."""
    picture = BinaryContent(PNG, media_type="image/png")
    talk = Conversation(
        messages=[
            ModelRequest(parts=[UserPromptPart(["see", picture])]),
            ModelResponse(parts=[ToolCallPart("paint", {}, tool_call_id="c1")]),
            ModelRequest(parts=[ToolReturnPart("paint", [picture], tool_call_id="c1")]),
            ModelResponse(parts=[TextPart("painted")]),
        ],
        conversation_id="c",
    )
    asyncio.run(LedgerSavedConversations(adapter_store).write(talk, expected_revision=None))
    asked, _, result, said = adapter_store.messages.history("c")
    adapter_store.messages.amend(asked, parts=[Text("see nothing")])
    adapter_store.messages.amend(result, parts=[Text("nothing to see")])
    adapter_store.messages.amend(said, parts=[])

    async def go() -> None:
        read = await LedgerSavedConversations(adapter_store).read("c")
        assert read is not None
        first, call, third, last = read.conversation.messages
        assert [part.content for part in (*first.parts, *third.parts)] == [
            "see nothing",
            "nothing to see",
        ]
        assert (call, last.parts) == (talk.messages[1], [])
        fresh = ModelResponse(parts=[TextPart("painted again")])
        more = replace(read.conversation, messages=[*read.conversation.messages, fresh])
        await LedgerSavedConversations(adapter_store).write(more, expected_revision=read.revision)

    asyncio.run(go())
    head = adapter_store.sessions.head("c")
    assert head is not None
    assert head.nodes == 5
