"""Real agent loops: ADK's Runner with a scripted model, on every kind of store."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.agents.run_config import RunConfig
from google.adk.artifacts import InMemoryArtifactService
from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.tools.load_memory_tool import load_memory
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from ledgerstone import Store
from ledgerstone.adapters.adk import (
    LedgerArtifactService,
    LedgerMemoryService,
    LedgerSessionService,
    store_id,
)
from tests.adapters.adk.scripted import KEY, Scripted, asks, calls, on, run, says, texts

STREAMING = RunConfig.model_validate({"streaming_mode": "sse"})


async def book(city: str, tool_context: ToolContext) -> dict[str, Any]:
    """Book a trip, with a change in each layer of the state and an artifact."""
    tool_context.state["city"] = city
    tool_context.state["user:trips"] = tool_context.state.get("user:trips", 0) + 1
    tool_context.state["app:last"] = city
    tool_context.state["temp:secret"] = "not kept"
    ticket = types.Part.from_bytes(data=city.encode(), mime_type="text/x-ticket")
    version = await tool_context.save_artifact(f"{city}.tkt", ticket)
    return {"booked": city, "version": version}


def pay(amount: int) -> dict[str, Any]:
    """Begin a payment that somebody has to confirm."""
    return {"status": "pending", "amount": amount}


def broken() -> dict[str, Any]:
    """A tool that fails in its own way."""
    return {"error": "no seats"}


def runner_of(agent: Any, *services: Any) -> Runner:
    sessions, artifacts, memory = services
    return Runner(
        app_name=KEY["app_name"],
        agent=agent,
        session_service=sessions,
        artifact_service=artifacts,
        memory_service=memory,
    )


def ours(store: Any) -> tuple[Any, ...]:
    return LedgerSessionService(store), LedgerArtifactService(store), LedgerMemoryService(store)


async def turn(runner: Runner, text: str | types.Content, **options: Any) -> list[Event]:
    said = asks(text) if isinstance(text, str) else text
    loop = runner.run_async(user_id=KEY["user_id"], session_id="s", new_message=said, **options)
    return [one async for one in loop]


def script() -> list[types.Content]:
    return [
        calls(("book", {"city": "Oslo"}), ("broken", {})),
        says("Booked Oslo."),
        calls(("book", {"city": "Rome"})),
        says("And Rome."),
    ]


async def two_turns(services: tuple[Any, ...]) -> dict[str, Any]:
    """A conversation with tools; what the agent and its services show of it."""
    model = Scripted(script=script())
    agent = LlmAgent(name="guide", model=model, tools=[book, broken], output_key="answer")
    runner = runner_of(agent, *services)
    await services[0].create_session(**KEY, session_id="s", state={"lang": "en"})
    await turn(runner, "Book Oslo")
    await turn(runner, "And Rome")
    session = await services[0].get_session(**KEY, session_id="s")
    names = await services[1].list_artifact_keys(**KEY, session_id="s")
    return {
        "state": session.state,
        "said": [_said(one) for one in session.events],
        "deltas": [one.actions.state_delta for one in session.events],
        "files": [one.actions.artifact_delta for one in session.events],
        "names": names,
        "seen": [[_flat(content) for content in call] for call in model.seen],
    }


def _said(event: Event) -> tuple[Any, ...]:
    return (event.author, _flat(event.content), event.is_final_response())


def _flat(content: types.Content | None) -> Any:
    """What is said, without ids that are drawn anew each time."""
    if content is None:
        return None
    found = []
    for part in content.parts or []:
        call, result = part.function_call, part.function_response
        found.append((part.text, call and (call.name, call.args), result and result.response))
    return content.role, found


def test_a_conversation_with_tools(store_url: str, colour: str) -> None:
    stock = (InMemorySessionService(), InMemoryArtifactService(), InMemoryMemoryService())
    expected = asyncio.run(two_turns(stock))
    found = on(store_url, colour, lambda store: two_turns(ours(store)))
    assert found == expected
    assert found["state"] == {
        "lang": "en",
        "city": "Rome",
        "answer": "And Rome.",
        "user:trips": 2,
        "app:last": "Rome",
    }
    assert found["names"] == ["Oslo.tkt", "Rome.tkt"]


def test_streaming_keeps_only_what_was_said_in_the_end(adapter_store: Store) -> None:
    services = ours(adapter_store)

    async def work() -> None:
        runner = runner_of(
            LlmAgent(name="guide", model=Scripted(script=[says("Hello")])), *services
        )
        await services[0].create_session(**KEY, session_id="s")
        seen = await turn(runner, "Hi", run_config=STREAMING)
        assert [(one.partial, texts([one])) for one in seen] == [(True, ["Hel"]), (None, ["Hello"])]
        session = await services[0].get_session(**KEY, session_id="s")
        assert texts(session.events) == ["Hi", "Hello"]

    run(work())
    stats = adapter_store.sessions.stats(store_id(**KEY, session_id="s"))
    assert (stats.calls, stats.usage.total_tokens) == (1, 15)


def test_a_long_running_tool(store_url: str, colour: str) -> None:
    async def work(store: Any) -> None:
        services = ours(store)
        first = Scripted(script=[calls(("pay", {"amount": 12})), says("It is pending.")])
        tool = LongRunningFunctionTool(pay)
        runner = runner_of(LlmAgent(name="guide", model=first, tools=[tool]), *services)
        await services[0].create_session(**KEY, session_id="s")
        seen = await turn(runner, "Pay 12")
        called = next(one for one in seen if one.get_function_calls())
        call = called.get_function_calls()[0]
        assert called.long_running_tool_ids == {call.id}

        # The next day, in another process: new objects over the same store.
        later = ours(store)
        second = Scripted(script=[says("Paid.")])
        again = runner_of(LlmAgent(name="guide", model=second, tools=[tool]), *later)
        kept = await later[0].get_session(**KEY, session_id="s")
        assert [one.long_running_tool_ids for one in kept.events].count({call.id}) == 1
        result = types.FunctionResponse(id=call.id, name="pay", response={"status": "done"})
        answer = types.Content(role="user", parts=[types.Part(function_response=result)])
        await turn(again, answer)
        kept = await later[0].get_session(**KEY, session_id="s")
        assert texts(kept.events)[-1] == "Paid."
        flat = [part for content in second.seen[0] for part in content.parts or []]
        answers = [part.function_response for part in flat if part.function_response]
        assert [one.response for one in answers] == [{"status": "done"}]

    on(store_url, colour, work)


def test_memory_is_searched_by_a_tool(adapter_store: Store) -> None:
    services = ours(adapter_store)

    async def work() -> None:
        await services[0].create_session(**KEY, session_id="s")
        model = Scripted(script=[says("Noted.")])
        await turn(runner_of(LlmAgent(name="guide", model=model), *services), "I love fjords")
        session = await services[0].get_session(**KEY, session_id="s")
        await services[2].add_session_to_memory(session)
        asked = Scripted(script=[calls(("load_memory", {"query": "fjords"})), says("You do.")])
        agent = LlmAgent(name="guide", model=asked, tools=[load_memory])
        await services[0].delete_session(**KEY, session_id="s")
        await services[0].create_session(**KEY, session_id="s")
        await turn(runner_of(agent, *services), "What do I love?")
        given = [
            part.function_response.response
            for content in asked.seen[-1]
            for part in content.parts or []
            if part.function_response
        ]
        assert "I love fjords" in str(given)

    run(work())


# ADK would rather have its Workflow, which does not do all of this yet.
@pytest.mark.filterwarnings("ignore:(Parallel|Sequential)Agent is deprecated:DeprecationWarning")
def test_agents_in_a_row_and_side_by_side(store_url: str, colour: str) -> None:
    async def work(store: Any) -> None:
        services = ours(store)

        def one(name: str) -> LlmAgent:
            model = Scripted(script=[calls(("broken", {})), says(f"{name} is done")])
            return LlmAgent(name=name, model=model, tools=[broken], output_key=f"temp:{name}")

        both = ParallelAgent(name="both", sub_agents=[one("left"), one("right")])
        asked = Scripted(script=[says("summed up")])
        last = LlmAgent(name="last", model=asked, instruction="Sum up {temp:left} {temp:right}")
        agent = SequentialAgent(name="all", sub_agents=[both, last])
        await services[0].create_session(**KEY, session_id="s")
        await turn(runner_of(agent, *services), "Go")
        session = await services[0].get_session(**KEY, session_id="s")
        assert [one.author for one in session.events].count("left") == 3
        assert texts(session.events)[-1] == "summed up"
        assert session.state == {}

    on(store_url, colour, work)


def test_a_rewind(adapter_store: Store) -> None:
    services = ours(adapter_store)

    async def work() -> None:
        model = Scripted(script=script())
        agent = LlmAgent(name="guide", model=model, tools=[book, broken])
        runner = runner_of(agent, *services)
        await services[0].create_session(**KEY, session_id="s")
        await turn(runner, "Book Oslo")
        second = await turn(runner, "And Rome")
        await runner.rewind_async(
            user_id=KEY["user_id"],
            session_id="s",
            rewind_before_invocation_id=second[0].invocation_id,
        )
        session = await services[0].get_session(**KEY, session_id="s")
        assert session.state["city"] == "Oslo"
        scope = {**KEY, "session_id": "s"}
        assert await services[1].load_artifact(**scope, filename="Rome.tkt") is None
        oslo = await services[1].load_artifact(**scope, filename="Oslo.tkt")
        assert oslo.inline_data.data == b"Oslo"

    run(work())


def test_only_the_newest_events_are_loaded(adapter_store: Store) -> None:
    services = ours(adapter_store)

    async def work() -> None:
        model = Scripted(script=[says(f"answer {n}") for n in range(4)])
        runner = runner_of(LlmAgent(name="guide", model=model), *services)
        await services[0].create_session(**KEY, session_id="s")
        config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=2))
        for n in range(4):
            await turn(runner, f"question {n}", run_config=config)
        assert len(model.seen[-1]) == 3
        session = await services[0].get_session(**KEY, session_id="s")
        assert len(session.events) == 8

    run(work())


def test_the_blocking_runner(adapter_store: Store) -> None:
    """Runner.run has a loop of its own in a thread of its own."""
    services = ours(adapter_store)
    run(services[0].create_session(**KEY, session_id="s"))
    runner = runner_of(LlmAgent(name="guide", model=Scripted(script=[says("Hello")])), *services)
    seen = list(runner.run(user_id=KEY["user_id"], session_id="s", new_message=asks("Hi")))
    assert texts(seen) == ["Hello"]
    session = run(services[0].get_session(**KEY, session_id="s"))
    assert texts(session.events) == ["Hi", "Hello"]
