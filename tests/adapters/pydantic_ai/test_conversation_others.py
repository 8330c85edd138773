"""Conversations that others write to as well: other frameworks, copies, steps."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.conversation import Conversation, ConversationTypeAdapter
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.step_persistence import StepPersistence
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationConflict as SavedConflict,
)

from ledgerstone import AsyncStore, Store, assistant, user
from ledgerstone.adapters.pydantic_ai import (
    LedgerConversationStore,
    LedgerSavedConversations,
    LedgerStepStore,
)
from ledgerstone.adapters.sync_async import of
from ledgerstone.errors import InvalidValue
from ledgerstone.records.parts import Text, ToolCall, ToolResult
from tests.adapters.pydantic_ai.samples import on_store
from tests.adapters.pydantic_ai.talks import ask, loaded, recorded, talk, texts

AnyStore = Store | AsyncStore


def test_a_session_opens_anywhere(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        talks = LedgerConversationStore(store)
        await of(store.messages.append("c", user("Ada here"), assistant("Hello"), create=True))
        result = await Agent(TestModel()).run("and you?", conversation=await loaded(talks))
        await talks.save(result)
        view = store.session("c")
        assert len(await of(view.as_openai())) == 4
        assert len(await of(view.as_langchain())) == 4
        # What others add is in the next reading; who has not seen it cannot write.
        stale = await loaded(talks)
        await of(store.messages.append("c", user("from elsewhere")))
        stale.messages.extend(ask("lost?"))
        with pytest.raises(ConversationConflict):
            await talks.save(stale)
        with pytest.raises(ConversationConflict):
            await talks.delete_record("c", expected_revision=str(stale.revision))
        now = await loaded(talks)
        assert len(now.messages) == 5
        assert now.usage == result.usage
        now.messages.extend(ask("seen"))
        await talks.save(now)
        history = await of(store.messages.history("c"))
        assert [one.text for one in history[-2:]] == ["from elsewhere", "seen"]

    on_store(store_url, colour, work)


def test_what_others_commit_besides_is_no_conflict(adapter_store: Store) -> None:
    talks = LedgerConversationStore(adapter_store)

    async def go() -> None:
        for begun in (True, False):
            id = "c" if begun else "o"
            if begun:
                await talks.save(talk("a"))
            else:
                adapter_store.messages.append(id, user("a"), create=True)
            now = await loaded(talks, id)
            adapter_store.usage.record(id, "m", {"input": 1})
            turn = adapter_store.turns.begin(id)
            turn.state(colour="blue")
            turn.commit()
            now.messages.extend(ask("b"))
            await talks.save(now)
            assert texts(adapter_store, id) == ["a", "b"]
            assert adapter_store.sessions.state(id)["colour"] == "blue"

    asyncio.run(go())


def test_entries_of_other_frameworks(adapter_store: Store) -> None:
    """Each is where a node ends, so that it can be branched from; what is inside is refused."""
    both = assistant([Text("b"), ToolCall("k", "t", {}), ToolResult("k", "r")], id="both")
    adapter_store.messages.append(
        "c", user("a", id="1"), user("a2", id="2"), both, user("", id="4"), create=True
    )
    talks = LedgerConversationStore(adapter_store)

    async def go() -> None:
        entries = await talks.load_entries("c")
        assert entries is not None
        kinds = [one.message.kind for one in entries]
        assert kinds == ["request", "response", "request"]
        assert entries[0].id == '["c", "2"]'
        assert entries[-1].id == (await recorded(talks)).head_id
        for limit in (1, 2, 3):
            assert await talks.load_entries("c", limit=limit) == entries[-limit:]
        for entry in (entries[0], entries[-1]):
            assert await talks.read_entry(entry.id) == entry
        with pytest.raises(InvalidValue, match="another framework"):
            await talks.branch("c", at=2, expected_revision=(await recorded(talks)).revision)
        await talks.fork("c", at=1, new_conversation_id="f")
        now = await talks.branch("c", at=1, expected_revision=(await recorded(talks)).revision)
        now.messages.extend(ask("x"))
        await talks.save(now)
        fork = await loaded(talks, "f")
        adapter_store.sessions.purge("c")
        fork.messages.extend(ask("y"))
        await talks.save(fork)
        entries = await talks.load_entries("f")
        assert entries is not None
        assert entries[0].id == '["f", "2"]'

    asyncio.run(go())
    assert texts(adapter_store, "f") == ["a", "a2", "y"]


def test_what_says_nothing_is_no_entry(adapter_store: Store) -> None:
    """Whether all is read or only the end: the entry before is the same."""
    talks = LedgerConversationStore(adapter_store)

    async def go() -> None:
        for begun in (True, False):
            id = "c" if begun else "o"
            if begun:
                await talks.save(talk("a", id=id))
            adapter_store.messages.append(id, assistant([]), create=True)
            now = await loaded(talks, id)
            now.messages.extend(ask("b"))
            await talks.save(now)
            entries = await talks.load_entries(id)
            assert entries is not None
            assert len(entries) == 1 + begun
            assert await talks.load_entries(id, limit=1) == entries[-1:]

    asyncio.run(go())


def test_namesakes_are_not_mixed_up(adapter_store: Store) -> None:
    """What other frameworks call the same in two sessions is told apart."""
    talks = LedgerConversationStore(adapter_store)
    for id in ("c", "d"):
        adapter_store.messages.append(id, user(f"of {id}", id="1"), create=True)

    async def go() -> None:
        heads = [(await recorded(talks, id)).head_id for id in ("c", "d")]
        for id, head in zip("cd", heads, strict=True):
            (entry,) = await talks.read_history(head)
            assert f"of {id}" in str(entry.message)

    asyncio.run(go())


@pytest.mark.parametrize("how", ["deleted", "amended"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_was_taken_away_does_not_come_back(adapter_store: Store, how: str, which: int) -> None:
    """Neither with a list of before, nor from the memory of a fork."""
    talks = LedgerConversationStore(adapter_store)

    async def go() -> None:
        before = talk("a", "b", "c")
        before.usage = RunUsage(requests=2)
        await talks.save(before)
        data = ConversationTypeAdapter.dump_json(before)
        one = adapter_store.messages.history("c")[which]
        if how == "deleted":
            adapter_store.messages.delete(one)
        else:
            adapter_store.messages.amend(one, parts=[Text("***")])
        old = ConversationTypeAdapter.validate_json(data)
        old.messages.extend(ask("d"))
        with pytest.raises(ConversationConflict):
            await talks.save(old)
        fork = await talks.fork("c", new_conversation_id="f")
        assert fork.usage.requests == 2
        assert await recorded(talks) in await talks.list_conversations()
        # Who goes on from what stands may.
        now = await loaded(talks)
        now.messages.extend(ask("d"))
        await talks.save(now)

    asyncio.run(go())
    said = ["a", "b", "c"]
    said[which : which + 1] = ["***"] if how == "amended" else []
    assert texts(adapter_store, "f") == said
    assert texts(adapter_store) == [*said, "d"]
    shown = asyncio.run(loaded(talks, "f"))
    assert ["***" in str(one) for one in shown.messages].count(True) == (how == "amended")


def test_a_copy_made_by_the_store(adapter_store: Store) -> None:
    talks = LedgerConversationStore(adapter_store)

    async def go() -> None:
        result = await Agent(TestModel()).run("hi", conversation=Conversation(conversation_id="c"))
        await talks.save(result, scope="ada")
        source = await recorded(talks)
        adapter_store.sessions.fork("c", new_id="all")
        first = adapter_store.messages.history("c")[0]
        adapter_store.sessions.fork("c", at=first, new_id="one")
        whole, one = await recorded(talks, "all"), await recorded(talks, "one")
        assert whole.revision != source.revision
        assert (whole.usage, one.usage.requests) == (source.usage, 0)
        assert [r.forked_from for r in (whole, one)] == ["c", "c"]
        assert [r.forked_at for r in (whole, one)] == [source.head_id, first.id]
        stale = await loaded(talks)
        stale.conversation_id = "all"
        with pytest.raises(ConversationConflict):
            await talks.save(stale)
        now = await loaded(talks, "all", scope="ada")
        now.messages.extend(ask("more"))
        await talks.save(now)
        assert len((await loaded(talks)).messages) == 2

    asyncio.run(go())


def test_what_was_saved_by_the_other_adapter(adapter_store: Store) -> None:
    """LedgerSavedConversations and this one go on from each other."""
    talks, saved = LedgerConversationStore(adapter_store), LedgerSavedConversations(adapter_store)
    waiting = DeferredToolRequests(approvals=[ToolCallPart("pay", {"eur": 1}, tool_call_id="k")])

    async def go() -> None:
        begun = talk("a", "b")
        begun.usage, begun.deferred_tool_requests = RunUsage(requests=2), waiting
        await saved.write(begun, expected_revision=None)
        now = await loaded(talks)
        assert (now.messages, now.usage) == (begun.messages, begun.usage)
        assert now.deferred_tool_requests == waiting
        now.messages.extend(ask("c"))
        await talks.save(now)
        there = await saved.read("c")
        assert there is not None
        longer = replace(there.conversation, messages=[*there.conversation.messages, *ask("d")])
        await saved.write(longer, expected_revision=there.revision)
        assert len((await loaded(talks)).messages) == 4

    asyncio.run(go())
    assert texts(adapter_store) == ["a", "b", "c", "d"]


WAITING = DeferredToolRequests(approvals=[ToolCallPart("pay", {"eur": 1}, tool_call_id="k")])


@pytest.mark.parametrize(
    ("act", "waits"),
    [("use", True), ("ask", True), ("answer", False), ("delete", False), ("delete more", True)],
)
def test_calls_that_wait_while_others_write(adapter_store: Store, act: str, waits: bool) -> None:
    """They wait as long as the library would take their results."""
    talks = LedgerConversationStore(adapter_store)

    async def go() -> None:
        paused = talk("a")
        paused.messages.append(ModelResponse(parts=[*WAITING.approvals]))
        paused.deferred_tool_requests = WAITING
        await talks.save(paused)
        if act == "use":
            adapter_store.usage.record("c", "m", {"input": 1})
        elif act == "answer":
            done = {"role": "tool", "content": "paid", "tool_call_id": "k"}
            adapter_store.messages.append("c", done, assistant("paid"))
        elif act == "delete":
            adapter_store.messages.delete(adapter_store.messages.history("c")[-1])
        else:
            adapter_store.messages.append("c", user("and now?"))
        if act == "delete more":
            adapter_store.messages.delete(adapter_store.messages.history("c")[-1])
        record = await recorded(talks)
        assert record.deferred_tool_requests == (WAITING if waits else None)
        assert await talks.list_conversations() == [record]

    asyncio.run(go())


def test_a_copy_of_steps(adapter_store: Store) -> None:
    """The steps of the source moved nothing in the copy, whatever is committed to it."""
    talks, steps = LedgerConversationStore(adapter_store), LedgerStepStore(adapter_store)
    agent = Agent(TestModel(), capabilities=[StepPersistence(store=steps)])

    async def go() -> None:
        await agent.run("a", conversation_id="c")
        assert await talks.load("c") is None
        adapter_store.sessions.fork("c", new_id="f")
        adapter_store.usage.record("f", "m", {"input": 1})
        now = await loaded(talks, "f")
        assert len(now.messages) == 2
        await talks.save(await agent.run("b", conversation=now))
        assert len((await loaded(talks, "f")).messages) == 4

    asyncio.run(go())
    saved = LedgerSavedConversations(adapter_store)
    with pytest.raises(SavedConflict):
        asyncio.run(saved.write(talk("new", id="f"), expected_revision=None))


def test_tasks_read_the_conversation_they_asked_for(adapter_store: Store) -> None:
    """A fork has the ids of its source, but not its fate."""
    talks = LedgerConversationStore(adapter_store)

    async def go() -> None:
        await talks.save(talk("a", "b"))
        await talks.fork("c", new_conversation_id="f")
        adapter_store.messages.delete(adapter_store.messages.history("f")[0])
        found = await asyncio.gather(*(loaded(talks, "cf"[n % 2]) for n in range(20)))
        assert [len(one.messages) for one in found] == [2, 1] * 10

    asyncio.run(go())


def test_an_id_that_is_not_free(adapter_store: Store) -> None:
    talks = LedgerConversationStore(adapter_store)

    async def go() -> None:
        adapter_store.messages.append("other", user("a"), create=True)
        await talks.save(talk("a", id="gone"))
        adapter_store.sessions.delete("gone")
        adapter_store.sessions.create(id="bobs", user="bob")
        assert await talks.load("gone") is None
        for id in ("other", "gone", "bobs"):
            with pytest.raises(ConversationConflict):
                await talks.save(talk("b", id=id), scope="ada")
        # One that is there and empty is as good as none.
        await talks.save(talk("b", id="bobs"))
        assert (await recorded(talks, "bobs")).scope == "bob"

    asyncio.run(go())


def test_steps_are_no_other_writer(adapter_store: Store) -> None:
    """With its steps kept as well, a run is saved once, and counted once."""
    talks, steps = LedgerConversationStore(adapter_store), LedgerStepStore(adapter_store)
    agent = Agent(TestModel(), capabilities=[StepPersistence(store=steps)])

    async def go() -> None:
        for n in range(3):
            now = await talks.load("c") or Conversation(conversation_id="c")
            result = await agent.run(f"q{n}", conversation=now)
            assert len(await talks.save(result)) == 2
        assert len((await loaded(talks)).messages) == 6
        adapter_store.messages.append("o", user("a"), create=True)
        await talks.save(await agent.run("b", conversation=await loaded(talks, "o")))
        assert len((await loaded(talks, "o")).messages) == 3
        # A run that was not saved is left where its steps are.
        await agent.run("lost", conversation=await loaded(talks))
        assert len((await loaded(talks)).messages) == 6
        assert len(await talks.list_conversations()) == 1

    asyncio.run(go())
    assert adapter_store.messages.count("o") == 3
    assert len(adapter_store.usage.list("c")) == 4
