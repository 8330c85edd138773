"""Conversations: compare and set, branches, forks, scopes; and equal to the library's own store."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from hashlib import sha256
from typing import Any, cast

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationConflict,
    ConversationSummary,
)

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.pydantic_ai import LedgerSavedConversations
from ledgerstone.errors import InvalidValue
from ledgerstone.records.sessions import Session
from tests.adapters.pydantic_ai.samples import PNG, on_store, same

AnyStore = Store | AsyncStore


def test_a_loop_of_runs(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        conversations = LedgerSavedConversations(store)
        agent = Agent(TestModel())
        first = await agent.run("hello")
        stored = await conversations.write(first.conversation, expected_revision=None)
        assert stored.revision == "1.1"
        for n in range(3):
            read = await conversations.read(stored.conversation.conversation_id)
            assert read is not None
            assert read.conversation == stored.conversation
            assert read.revision == stored.revision
            result = await agent.run(f"more {n}", conversation=read.conversation)
            stored = await conversations.write(result.conversation, expected_revision=read.revision)
        assert len(stored.conversation.messages) == 8
        assert stored.conversation.usage.requests == 4

    on_store(store_url, colour, work)


def test_only_new_messages_are_written(adapter_store: Store) -> None:
    conversations = LedgerSavedConversations(adapter_store)

    async def go() -> None:
        agent = Agent(TestModel())
        result = await agent.run("hello")
        stored = await conversations.write(result.conversation, expected_revision=None)
        id = result.conversation.conversation_id
        result = await agent.run("more", conversation=result.conversation)
        await conversations.write(result.conversation, expected_revision=stored.revision)
        head = adapter_store.sessions.head(id)
        assert head is not None
        assert (head.revision, head.nodes) == (2, 4)
        # Another process knows nothing yet, and finds what both begin with by reading.
        other = LedgerSavedConversations(adapter_store)
        result = await agent.run("last", conversation=result.conversation)
        await other.write(result.conversation, expected_revision="1.2")
        head = adapter_store.sessions.head(id)
        assert head is not None
        assert (head.revision, head.nodes) == (3, 6)

    asyncio.run(go())


def test_tools_retries_and_pictures(store_url: str, colour: str) -> None:
    tries = 0

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) < 4:
            return ModelResponse(parts=[ToolCallPart("paint", {"n": len(messages)})])
        return ModelResponse(parts=[TextPart("painted")])

    agent = Agent(FunctionModel(answer), retries=2)

    @agent.tool_plain
    def paint(n: int) -> list[Any]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ModelRetry("another colour")
        return ["a picture", BinaryContent(PNG, media_type="image/png")]

    async def work(store: AnyStore) -> None:
        conversations = LedgerSavedConversations(store)
        picture = BinaryContent(PNG + b"2", media_type="image/png")
        result = await agent.run(["like this", picture])
        stored = await conversations.write(result.conversation, expected_revision=None)
        fresh = LedgerSavedConversations(store)
        read = await fresh.read(stored.conversation.conversation_id)
        assert read is not None
        assert same(read.conversation.messages, result.conversation.messages)

    on_store(store_url, colour, work)


def test_bytes_are_blobs_and_not_text(adapter_store: Store) -> None:
    conversations = LedgerSavedConversations(adapter_store)
    picture = BinaryContent(PNG, media_type="image/png")
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(["look", picture])])]
    talk = Conversation(messages=messages, conversation_id="c")
    asyncio.run(conversations.write(talk, expected_revision=None))
    (stored,) = adapter_store.messages.history("c")
    (attached,) = adapter_store.attachments.list("c")
    assert attached.committed_us
    assert adapter_store.blobs.get(attached) == PNG
    assert len(str(stored.body)) < 3000
    assert any(getattr(part, "blob", None) == attached.id for part in stored.parts)
    adapter_store.admin.gc(older_than_s=0, attachments_older_than_s=0)
    read = asyncio.run(LedgerSavedConversations(adapter_store).read("c"))
    assert read is not None
    assert same(read.conversation.messages, messages)


def test_a_paused_run_waits_in_the_store(store_url: str, colour: str) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("pay", {"eur": 120}, tool_call_id="c1")])
        return ModelResponse(parts=[TextPart("paid")])

    agent = Agent(FunctionModel(answer), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def pay(eur: int) -> str:
        return f"paid {eur}"

    async def work(store: AnyStore) -> None:
        conversations = LedgerSavedConversations(store)
        paused = await agent.run("pay it")
        assert isinstance(paused.output, DeferredToolRequests)
        stored = await conversations.write(paused.conversation, expected_revision=None)
        # The next day, elsewhere.
        read = await LedgerSavedConversations(store).read(stored.conversation.conversation_id)
        assert read is not None
        waiting = read.conversation.deferred_tool_requests
        assert waiting is not None
        assert [call.tool_call_id for call in waiting.approvals] == ["c1"]
        done = await agent.run(
            conversation=read.conversation,
            deferred_tool_results=DeferredToolResults(approvals={"c1": True}),
        )
        assert done.output == "paid"
        after = await conversations.write(done.conversation, expected_revision=read.revision)
        again = await conversations.read(stored.conversation.conversation_id)
        assert again is not None
        assert again.conversation == after.conversation
        assert again.conversation.deferred_tool_requests is None

    on_store(store_url, colour, work)


def test_a_streamed_run(store_url: str) -> None:
    async def work(store: AnyStore) -> None:
        agent = Agent(TestModel(custom_output_text="one two three"))
        async with agent.run_stream("tell") as stream:
            assert [text async for text in stream.stream_text()][-1] == "one two three"
            messages = stream.all_messages()
        conversations = LedgerSavedConversations(store)
        talk = Conversation(messages=messages)
        await conversations.write(talk, expected_revision=None)
        read = await conversations.read(talk.conversation_id)
        assert read is not None
        assert read.conversation == talk

    on_store(store_url, "blocking", work)


def test_two_writers(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        here, there = LedgerSavedConversations(store), LedgerSavedConversations(store)
        agent = Agent(TestModel())
        begun = await agent.run("hello")
        stored = await here.write(begun.conversation, expected_revision=None)
        id = stored.conversation.conversation_id
        results = [await agent.run(text, conversation=begun.conversation) for text in "ab"]
        answers = await asyncio.gather(
            here.write(results[0].conversation, expected_revision=stored.revision),
            there.write(results[1].conversation, expected_revision=stored.revision),
            return_exceptions=True,
        )
        failed = [one for one in answers if isinstance(one, ConversationConflict)]
        assert len(failed) == 1
        read = await here.read(id)
        assert read is not None
        assert read.revision == "1.2"
        assert len(read.conversation.messages) == 4
        with pytest.raises(ConversationConflict):
            await there.write(begun.conversation, expected_revision=None)
        with pytest.raises(ConversationConflict):
            await there.write(Conversation(conversation_id="nobody"), expected_revision="1.1")

    on_store(store_url, colour, work)


def test_many_creators_and_one_winner(store_url: str) -> None:
    async def work(store: AnyStore) -> None:
        talks = [
            Conversation(
                messages=[ModelRequest(parts=[UserPromptPart(str(n))])], conversation_id="c"
            )
            for n in range(8)
        ]
        answers = await asyncio.gather(
            *(
                LedgerSavedConversations(store).write(talk, expected_revision=None)
                for talk in talks
            ),
            return_exceptions=True,
        )
        assert sum(not isinstance(one, Exception) for one in answers) == 1
        assert sum(isinstance(one, ConversationConflict) for one in answers) == 7
        read = await LedgerSavedConversations(store).read("c")
        assert read is not None
        assert len(read.conversation.messages) == 1

    on_store(store_url, "blocking", work)


def test_deleted_and_made_again_is_another_revision(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        conversations = LedgerSavedConversations(store)
        talk = Conversation(
            messages=[ModelRequest(parts=[UserPromptPart("a")])], conversation_id="c"
        )
        old = await conversations.write(talk, expected_revision=None)
        with pytest.raises(ConversationConflict):
            await conversations.remove("c", expected_revision="1.7")
        await conversations.remove("c", expected_revision=old.revision)
        assert await conversations.read("c") is None
        new = await conversations.write(talk, expected_revision=None)
        assert new.revision == "2.1"
        with pytest.raises(ConversationConflict):
            await conversations.write(talk, expected_revision=old.revision)
        with pytest.raises(ConversationConflict):
            await conversations.remove("c", expected_revision=old.revision)

    on_store(store_url, colour, work)


def test_branch_and_fork(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        conversations = LedgerSavedConversations(store)
        agent = Agent(TestModel())
        begun = await conversations.write(
            (await agent.run("hello")).conversation, expected_revision=None
        )
        id, head = begun.conversation.conversation_id, begun.head
        more = await agent.run("more", conversation=begun.conversation)
        await conversations.write(more.conversation, expected_revision=begun.revision)
        # Another way to go on, in the same conversation.
        branch = await conversations.branch(id, "other", at=head)
        assert branch.conversation.messages == begun.conversation.messages
        result = await agent.run("otherwise", conversation=branch.conversation)
        await conversations.write(
            result.conversation, expected_revision=branch.revision, branch="other"
        )
        main = await conversations.read(id)
        other = await conversations.read(id, branch="other")
        assert main is not None
        assert other is not None
        assert main.conversation.messages == more.conversation.messages
        assert other.conversation.messages == result.conversation.messages
        # A head of one conversation is the beginning of another one.
        fork = await conversations.fork(id, at=other.head, new_id="forked")
        assert fork.conversation.conversation_id == "forked"
        assert fork.conversation.messages == result.conversation.messages
        short = replace(fork.conversation, messages=fork.conversation.messages[2:])
        await conversations.write(short, expected_revision=fork.revision)
        assert (await conversations.read(id)) == main
        with pytest.raises(ConversationConflict):
            await conversations.fork(id, at="nothing")
        with pytest.raises(ConversationConflict):
            await conversations.fork("nobody")
        with pytest.raises(ConversationConflict):
            await conversations.branch(id, "third", at="nothing")

    on_store(store_url, colour, work)


def test_scopes_and_tenants(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        ada = LedgerSavedConversations(store, scope="ada")
        bob = LedgerSavedConversations(store, scope="bob")
        talk = Conversation(conversation_id="c")
        stored = await ada.write(talk, expected_revision=None)
        assert await bob.read("c") is None
        with pytest.raises(ConversationConflict):
            await bob.write(talk, expected_revision=stored.revision)
        with pytest.raises(ConversationConflict):
            await bob.write(talk, expected_revision=None)
        assert [one.id for one in await ada.records()] == ["c"]
        assert await bob.records() == []
        # Also while nothing was said in it.
        empty = store.sessions.create(id="empty", user="ada")
        if not isinstance(empty, Session):
            await empty
        with pytest.raises(ConversationConflict):
            await bob.write(Conversation(conversation_id="empty"), expected_revision=None)
        other = LedgerSavedConversations(store.for_tenant("other"))
        assert await other.read("c") is None
        await other.write(talk, expected_revision=None)
        assert [one.user for one in await LedgerSavedConversations(store).records()] == ["ada"]

    on_store(store_url, colour, work)


def test_usage_is_counted_once(adapter_store: Store) -> None:
    conversations = LedgerSavedConversations(adapter_store)

    async def go() -> None:
        result = await Agent(TestModel()).run("hello")
        talk = replace(result.conversation, conversation_id="c")
        stored = await conversations.write(talk, expected_revision=None)
        used = talk.usage.input_tokens + talk.usage.output_tokens
        # The question goes, the answer stays: it is a new node, and was paid for once.
        short = replace(talk, messages=talk.messages[1:])
        await conversations.write(short, expected_revision=stored.revision)
        (line,) = adapter_store.usage.summary(session="c")
        assert line.usage.input + line.usage.output == used

    asyncio.run(go())


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_what_could_not_be_read_is_named(adapter_store: Store) -> None:
    """The library writes any type, and reads only the right ones."""
    conversations, half = LedgerSavedConversations(adapter_store), cast(Any, 1.5)
    spent = Conversation(conversation_id="c", usage=RunUsage(requests=half))
    said = Conversation(conversation_id="c", messages=[ModelResponse(parts=[TextPart(half)])])
    summary = ConversationSummary(id="c", workspace="", title=half)
    for call, place in (
        (conversations.write(spent, expected_revision=None), "conversation.usage.requests"),
        (conversations.write(said, expected_revision=None), "messages[0].response.parts.0.text"),
        (conversations.save(summary=summary, messages=[]), "summary.title"),
    ):
        with pytest.raises(InvalidValue, match=re.escape(place)):
            asyncio.run(call)
    assert adapter_store.sessions.count() == 0


def test_what_can_not_be_stored_is_named(adapter_store: Store) -> None:
    conversations = LedgerSavedConversations(adapter_store)

    async def write(talk: Any) -> None:
        await conversations.write(talk, expected_revision=None)

    bad = ModelRequest(parts=[UserPromptPart("x")], metadata={"deep": [1, object()]})
    with pytest.raises(InvalidValue, match=r"messages\[0\]\.metadata\.deep\[1\]"):
        asyncio.run(write(Conversation(messages=[bad], conversation_id="c")))
    fine = ModelRequest(parts=[UserPromptPart(["see", BinaryContent(PNG, media_type="image/png")])])
    circle: dict[str, Any] = {}
    circle["again"] = circle
    deep: list[Any] = []
    for _ in range(100):
        deep = [deep]
    for value, place in ((circle, r"messages\[1\]: "), (deep, r"messages\[1\]\.metadata\.v\[0\]")):
        bad = ModelRequest(parts=[UserPromptPart("x")], metadata={"v": value})
        with pytest.raises(InvalidValue, match=place):
            asyncio.run(write(Conversation(messages=[fine, bad], conversation_id="c")))
    assert not adapter_store.blobs.exists(sha256(PNG).hexdigest())
    waiting = DeferredToolRequests(metadata={"c1": {"why": object()}})
    with pytest.raises(InvalidValue, match="conversation"):
        asyncio.run(write(Conversation(deferred_tool_requests=waiting, conversation_id="c")))
    with pytest.raises(InvalidValue, match="a Conversation expected"):
        asyncio.run(write({"messages": []}))
    with pytest.raises(InvalidValue, match="conversation_id"):
        asyncio.run(write(Conversation(conversation_id="")))
    assert adapter_store.sessions.count() == 0
