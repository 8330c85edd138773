"""A fork knows of itself and not of its source, also when its maker died before saying so."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, ToolCallPart, UserPromptPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RunUsage
from pydantic_ai_harness.step_persistence import StepPersistence
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationConflict,
    ConversationSummary,
)

from ledgerstone import Store, user
from ledgerstone.adapters.pydantic_ai import LedgerSavedConversations, LedgerStepStore
from ledgerstone.adapters.pydantic_ai.heads import Heads

WAITING = DeferredToolRequests(approvals=[ToolCallPart("pay", {"eur": 1}, tool_call_id="c1")])


class Died(Exception):
    """The process ends here."""


def said(*texts: str) -> list[ModelRequest]:
    return [ModelRequest(parts=[UserPromptPart(text)]) for text in texts]


def talk(id: str, *texts: str, spent: int, waits: bool = False) -> Conversation:
    return Conversation(
        messages=list(said(*texts)),
        conversation_id=id,
        usage=RunUsage(requests=spent),
        deferred_tool_requests=WAITING if waits else None,
    )


@pytest.fixture(params=["whole", "killed"])
def kill(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether makers of forks die between the two commits."""
    if request.param == "killed":

        async def die(*_: object) -> None:
            raise Died

        monkeypatch.setattr(Heads, "patch", die)
    return bool(request.param == "killed")


async def fork(store: Store, kill: bool, at: str | None = None) -> LedgerSavedConversations:
    """Fork c as f, and what another process sees it with."""
    try:
        await LedgerSavedConversations(store).fork("c", at=at, new_id="f")
        assert not kill
    except Died:
        assert kill
    return LedgerSavedConversations(store)


def test_a_fork_of_the_beginning(adapter_store: Store, kill: bool) -> None:
    """What the source spent after it, and what waits there, is none of the fork's."""

    async def go() -> None:
        here = LedgerSavedConversations(adapter_store)
        first = await here.write(talk("c", "a", spent=1), expected_revision=None)
        more = replace(first.conversation, messages=[*first.conversation.messages, *said("b")])
        more = replace(more, usage=RunUsage(requests=2), deferred_tool_requests=WAITING)
        await here.write(more, expected_revision=first.revision)
        there = await fork(adapter_store, kill, first.head)
        read = await there.read("f")
        assert read is not None
        assert read.conversation.messages == first.conversation.messages
        assert read.conversation.deferred_tool_requests is None
        assert read.conversation.usage == RunUsage()
        assert read.revision == "1.1"
        again = await there.write(read.conversation, expected_revision=read.revision)
        assert again.revision == "1.2"
        with pytest.raises(ConversationConflict):
            await there.write(read.conversation, expected_revision=read.revision)

    asyncio.run(go())


def test_a_fork_of_all(adapter_store: Store, kill: bool) -> None:
    """What was spent and waits comes along, also when another framework went on from there."""

    async def go() -> None:
        here = LedgerSavedConversations(adapter_store)
        whole = talk("c", "a", "b", spent=2, waits=True)
        await here.write(whole, expected_revision=None)
        adapter_store.messages.append("c", user("from elsewhere"))
        there = await fork(adapter_store, kill)
        read = await there.read("f")
        assert read is not None
        assert read.conversation.usage == whole.usage
        assert read.conversation.deferred_tool_requests == WAITING
        # Others may write to it before this adapter does, and are noticed.
        adapter_store.messages.append("f", user("and more"))
        with pytest.raises(ConversationConflict):
            await there.write(read.conversation, expected_revision=read.revision)
        later = await there.read("f")
        assert later is not None
        assert later.conversation.usage == whole.usage
        adapter_store.messages.append("f", user("and more"))
        latest = await there.read("f")
        assert latest is not None
        assert len({read.revision, later.revision, latest.revision}) == 3
        await there.write(latest.conversation, expected_revision=latest.revision)

    asyncio.run(go())


def test_the_summary_of_a_fork(adapter_store: Store, kill: bool) -> None:
    """Nobody runs it, and it can be named, in the revision that lists and readings agree on."""
    here = LedgerSavedConversations(adapter_store)
    new = ConversationSummary(id="c", workspace="/w", outcome="running", owner_pid=os.getpid())

    async def go() -> None:
        saved = await here.save(summary=new, messages=said("a"))
        saved = await here.save(summary=saved, messages=said("a", "b"))
        there = await fork(adapter_store, kill)
        listed = {one.id: one for one in await there.listing()}
        got = (await there.get(conversation_id="f")).summary
        assert listed["f"] == got
        assert (got.revision, got.outcome, got.owner_pid) == (1, "ready", None)
        assert listed["c"] == saved
        await there.save(summary=got, messages=said("a", "b", "c"))
        assert (await there.get(conversation_id="f")).summary.revision == 2

    asyncio.run(go())


def test_a_fork_of_steps(adapter_store: Store, kill: bool) -> None:
    """Steps of the source's runs are not taken for the fork's."""
    steps = LedgerStepStore(adapter_store)
    agent = Agent(TestModel(), capabilities=[StepPersistence(store=steps)])

    async def go() -> None:
        here = LedgerSavedConversations(adapter_store)
        begun = (await Agent(TestModel()).run("hello")).conversation
        begun = replace(begun, conversation_id="c")
        await here.write(begun, expected_revision=None)
        await agent.run("more", conversation=begun)
        there = await fork(adapter_store, kill)
        read = await there.read("f")
        assert read is not None
        assert read.revision == "1.1"
        assert len(read.conversation.messages) == 4
        result = await agent.run("and more", conversation=read.conversation)
        done = await there.write(result.conversation, expected_revision=read.revision)
        assert (await there.read("f")) == done

    asyncio.run(go())


def test_a_copy_keeps_its_branches(adapter_store: Store) -> None:
    """Copied by the store itself, not by this adapter."""

    async def go() -> None:
        talks = LedgerSavedConversations(adapter_store)
        await talks.write(talk("c", "a", spent=1), expected_revision=None)
        branch = await talks.branch("c", "other")
        spent = replace(branch.conversation, usage=RunUsage(requests=5))
        await talks.write(spent, expected_revision=branch.revision, branch="other")
        adapter_store.sessions.copy("c", "f")
        main, other = await talks.read("f"), await talks.read("f", branch="other")
        assert main is not None
        assert other is not None
        assert (main.conversation.usage.requests, other.conversation.usage.requests) == (1, 5)
        await talks.write(other.conversation, expected_revision=other.revision, branch="other")
        assert (await talks.read("f")) == replace(main, revision="1.1")

    asyncio.run(go())
