"""Requests that are kept before they are sent, and get their time and run when they are."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.step_persistence import StepPersistence, continue_run

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.pydantic_ai import LedgerSavedConversations, LedgerStepStore
from tests.adapters.pydantic_ai.samples import on_store, same

AnyStore = Store | AsyncStore
ROUNDS = 3


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Looks a few times, then tells."""
    n = sum(isinstance(one, ModelResponse) for one in messages)
    if n < ROUNDS:
        return ModelResponse(parts=[ToolCallPart("look", {"n": n}, tool_call_id=f"c{n}")])
    return ModelResponse(parts=[TextPart("seen")])


def make_agent(steps: LedgerStepStore, run_id: str, dies_at: int | None = None) -> Agent[None, str]:
    kept = StepPersistence[None](store=steps, run_id=run_id)
    agent = Agent(FunctionModel(answer), instructions="Be brief.", capabilities=[kept])

    @agent.tool_plain
    def look(n: int) -> str:
        if n == dies_at:
            raise KeyboardInterrupt
        return f"{n} " + "x" * 2000

    return agent


def test_every_turn_of_a_loop_is_in_the_conversation(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        result = await make_agent(LedgerStepStore(store), "r").run("look", conversation_id="c")
        read = await LedgerSavedConversations(store).read("c")
        assert read is not None
        assert same(read.conversation.messages, result.all_messages())
        kept = await LedgerStepStore(store).list_snapshots(run_id="r")
        assert [len(one.messages) for one in kept] == [3, 5, 7, 8]
        assert same(kept[-1].messages, result.all_messages())

    on_store(store_url, colour, work)


def test_the_conversation_store_adds_nothing(adapter_store: Store) -> None:
    async def go() -> None:
        talks = LedgerSavedConversations(adapter_store)
        result = await make_agent(LedgerStepStore(adapter_store), "r").run("a", conversation_id="c")
        head = adapter_store.sessions.head("c")
        stored = await talks.write(result.conversation, expected_revision=None)
        after = adapter_store.sessions.head("c")
        assert head is not None
        assert after is not None
        assert (after.nodes, after.leaf) == (head.nodes, head.leaf)
        result = await make_agent(LedgerStepStore(adapter_store), "r2").run(
            "b", conversation=stored.conversation
        )
        await talks.write(result.conversation, expected_revision=stored.revision)
        read = await talks.read("c")
        assert read is not None
        assert same(read.conversation.messages, result.all_messages())

    asyncio.run(go())


def test_going_on_in_another_process(adapter_store: Store) -> None:
    """The last request that was kept is sent by the run that goes on."""

    async def go() -> None:
        with pytest.raises(KeyboardInterrupt):
            await make_agent(LedgerStepStore(adapter_store), "r", 2).run("a", conversation_id="c")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(go())

    async def on() -> None:
        steps = LedgerStepStore(adapter_store)
        history = await continue_run(steps, run_id="r")
        assert adapter_store.messages.count("c") == len(history) == 5
        result = await make_agent(steps, "r2").run(message_history=history, conversation_id="c")
        read = await LedgerSavedConversations(adapter_store).read("c")
        assert read is not None
        assert same(read.conversation.messages, result.all_messages())

    asyncio.run(on())
