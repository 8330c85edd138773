"""Compare and set when others write too: other frameworks, steps, and a session's next life."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.models.test import TestModel
from pydantic_ai_harness.step_persistence import ContinuableSnapshot, StepPersistence
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationConflict,
    ConversationSummary,
)

from ledgerstone import Store, assistant, user
from ledgerstone.adapters.pydantic_ai import LedgerSavedConversations, LedgerStepStore
from ledgerstone.adapters.pydantic_ai.heads import BranchState, Heads
from ledgerstone.records.parts import Text
from tests.adapters.pydantic_ai.samples import PNG


def ask(text: str) -> ModelMessage:
    return ModelRequest(parts=[UserPromptPart(text)])


def talk(*texts: str, id: str = "c") -> Conversation:
    return Conversation(messages=[ask(text) for text in texts], conversation_id=id)


def texts(store: Store, id: str = "c") -> list[str]:
    return [one.text for one in store.messages.history(id)]


def test_what_was_read_may_be_rewritten(adapter_store: Store) -> None:
    """A history of other origin, cut by who has read it; who has not only goes on from it."""
    adapter_store.messages.append("c", user("a"), assistant("b"), create=True)
    talks = LedgerSavedConversations(adapter_store)

    async def go() -> None:
        first = await talks.read("c")
        assert first is not None
        adapter_store.messages.append("c", user("c"))
        second = await talks.read("c")
        assert second is not None
        assert second.revision != first.revision
        with pytest.raises(ConversationConflict, match="not seen"):
            await talks.write(talk("cut"), expected_revision=first.revision)
        longer = [*second.conversation.messages, ask("d")]
        whole = Conversation(messages=longer, conversation_id="c")
        third = await talks.write(whole, expected_revision=first.revision)
        with pytest.raises(ConversationConflict):
            await talks.write(talk("cut"), expected_revision=second.revision)
        await talks.write(talk("cut"), expected_revision=third.revision)

    asyncio.run(go())
    assert texts(adapter_store) == ["cut"]


def test_what_was_got_may_be_rewritten(adapter_store: Store) -> None:
    """The same with the numbers of the harness."""
    talks = LedgerSavedConversations(adapter_store)

    async def go() -> None:
        made = ConversationSummary(id="c", workspace="/w")
        saved = await talks.save(summary=made, messages=talk("a", "b").messages)
        assert saved.revision == 1
        adapter_store.messages.append("c", user("from elsewhere"))
        with pytest.raises(ConversationConflict, match="not seen"):
            await talks.save(summary=saved, messages=[ask("cut")])
        with pytest.raises(ConversationConflict):
            await talks.delete(source=saved)
        got = await talks.get(conversation_id="c")
        (listed,) = await talks.listing()
        assert listed == got.summary
        again = await talks.save(summary=got.summary, messages=[ask("cut")])
        assert again.revision == got.summary.revision + 1
        with pytest.raises(ConversationConflict):
            await talks.save(summary=made, messages=[ask("new")])
        await talks.delete(source=again)

    asyncio.run(go())
    assert adapter_store.sessions.get("c") is None


def test_a_branch_begins_with_what_its_head_had(adapter_store: Store) -> None:
    talks = LedgerSavedConversations(adapter_store)

    async def go() -> None:
        result = await Agent(TestModel()).run("hello")
        spent = replace(result.conversation, conversation_id="c")
        stored = await talks.write(spent, expected_revision=None)
        assert await talks.read("c", branch="other") is None
        branch = await talks.branch("c", "other")
        assert branch.conversation.usage == spent.usage
        # Cut at once, by who has just read it.
        short = replace(branch.conversation, messages=spent.messages[1:])
        await talks.write(short, expected_revision=branch.revision, branch="other")
        main, other = await talks.read("c"), await talks.read("c", branch="other")
        assert main is not None
        assert other is not None
        assert main == stored
        assert other.conversation.messages == spent.messages[1:]
        fork = await talks.fork("c", at=other.head)
        assert fork.conversation.usage == spent.usage
        assert (await talks.fork("c", at=None)).conversation.messages == spent.messages

    asyncio.run(go())


def test_steps_come_before_the_first_write(adapter_store: Store) -> None:
    """A run with its steps kept makes the session; the conversation is still a new one, once."""
    steps = LedgerStepStore(adapter_store, user="ada")
    talks = LedgerSavedConversations(adapter_store, scope="ada")
    agent = Agent(TestModel(), capabilities=[StepPersistence(store=steps)])

    async def go() -> None:
        result = await agent.run("hello", conversation_id="c")
        await talks.write(result.conversation, expected_revision=None)
        with pytest.raises(ConversationConflict):
            await talks.write(result.conversation, expected_revision=None)
        assert [one.id for one in await talks.records()] == ["c"]

    asyncio.run(go())
    assert adapter_store.messages.count("c") == 2


def test_writing_a_branch_forgets_no_steps(adapter_store: Store) -> None:
    """What the steps of a run added to main stays known as theirs."""
    steps, talks = LedgerStepStore(adapter_store), LedgerSavedConversations(adapter_store)
    agent = Agent(TestModel(), capabilities=[StepPersistence(store=steps)])

    async def go() -> None:
        begun = await talks.write(talk("a"), expected_revision=None)
        other = await talks.branch("c", "other")
        await agent.run("lost", conversation=begun.conversation)
        more = Conversation(messages=[*begun.conversation.messages, ask("o")], conversation_id="c")
        await talks.write(more, expected_revision=other.revision, branch="other")
        await talks.write(talk("cut"), expected_revision=begun.revision)

    asyncio.run(go())
    assert texts(adapter_store) == ["cut"]


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("how", ["deleted", "amended"])
def test_what_was_taken_away_does_not_come_back(adapter_store: Store, how: str, which: int) -> None:
    """Neither with a list of before, nor with the snapshot of a run that has one."""
    talks, steps = LedgerSavedConversations(adapter_store), LedgerStepStore(adapter_store)
    picture = BinaryContent(PNG, media_type="image/png")
    before = talk("a", "b")
    before.messages.insert(which, ModelRequest(parts=[UserPromptPart(["secret", picture])]))

    async def go() -> None:
        stored = await talks.write(before, expected_revision=None)
        first = adapter_store.messages.history("c")[which]
        if how == "deleted":
            adapter_store.messages.delete(first)
        else:
            adapter_store.messages.amend(first, parts=[Text("***")])
        longer = replace(before, messages=[*before.messages, ask("d")])
        read = await talks.read("c")
        assert read is not None
        for store in (talks, LedgerSavedConversations(adapter_store)):
            with pytest.raises(ConversationConflict, match="Reload"):
                await store.write(longer, expected_revision=stored.revision)
        for kept in (steps, LedgerStepStore(adapter_store)):
            await kept.save_snapshot(
                ContinuableSnapshot(
                    run_id="r", step_index=1, messages=longer.messages, conversation_id="c"
                )
            )
        assert "secret" not in texts(adapter_store)
        again = [*read.conversation.messages, ask("d")]
        await talks.write(
            replace(read.conversation, messages=again), expected_revision=read.revision
        )

    asyncio.run(go())
    said = ["a", "b", "d"]
    if how == "amended":
        said.insert(which, "***")
    assert texts(adapter_store) == said


class Interfering(Heads):
    """Something happens right after the first look."""

    def __init__(self, store: Store, scope: str | None, act: Callable[[], Any]) -> None:
        super().__init__(store, scope)
        self.acts = [act]

    async def look(self, id: str, branch: str = "main", **how: bool) -> BranchState:
        place = await super().look(id, branch, **how)
        if self.acts:
            self.acts.pop()()
        return place


def interfered(store: Store, act: Callable[[], Any]) -> LedgerSavedConversations:
    talks = LedgerSavedConversations(store, scope="ada")
    talks._heads = Interfering(store, "ada", act)
    return talks


def in_a_thread(act: Callable[[], None]) -> Callable[[], None]:
    """Another writer has a loop of its own."""

    def go() -> None:
        thread = Thread(target=act)
        thread.start()
        thread.join()

    return go


def test_a_session_that_was_made_again(adapter_store: Store) -> None:
    """At the same revision, behind the back of whoever looked: nothing of the new one is lost."""
    talks = LedgerSavedConversations(adapter_store, scope="ada")

    def again() -> None:
        adapter_store.sessions.purge("c")
        asyncio.run(talks.write(talk("of another life"), expected_revision=None))

    def writes(here: LedgerSavedConversations, revision: str) -> Any:
        return here.write(talk("a", "b"), expected_revision=revision)

    def removes(here: LedgerSavedConversations, revision: str) -> Any:
        return here.remove("c", expected_revision=revision)

    for act in (writes, removes):
        adapter_store.sessions.purge("c")
        stored = asyncio.run(talks.write(talk("a"), expected_revision=None))
        with pytest.raises(ConversationConflict):
            asyncio.run(act(interfered(adapter_store, in_a_thread(again)), stored.revision))
        assert texts(adapter_store) == ["of another life"]


def test_a_session_that_goes_or_comes(adapter_store: Store) -> None:
    talks = LedgerSavedConversations(adapter_store, scope="ada")
    stored = asyncio.run(talks.write(talk("a"), expected_revision=None))

    def gone() -> None:
        adapter_store.sessions.purge("c")

    def taken() -> None:
        adapter_store.sessions.create(id="c", user="bob")

    with pytest.raises(ConversationConflict):
        asyncio.run(
            interfered(adapter_store, gone).write(talk("a", "b"), expected_revision=stored.revision)
        )
    with pytest.raises(ConversationConflict):
        asyncio.run(interfered(adapter_store, taken).write(talk("a"), expected_revision=None))
    found = adapter_store.sessions.get("c")
    assert found is not None
    assert (found.user, adapter_store.messages.count("c")) == ("bob", 0)
    gone()
    summary = ConversationSummary(id="c", workspace="/w")
    saved = asyncio.run(talks.save(summary=summary, messages=[ask("a")]))
    named = interfered(adapter_store, gone).name(source=saved, title="t")
    assert not asyncio.run(named)
    assert adapter_store.sessions.get("c") is None
