"""Real runs of the SDK with a scripted model, on our session and on the SDK's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from agents import Agent, Runner, SQLiteSession, ToolOutputImage, function_tool

from ledgerstone import AsyncStore, Store, ids
from ledgerstone.adapters.openai_agents import LedgerSession
from ledgerstone.adapters.sync_async import AnyStore, of
from tests.adapters.conftest import opened
from tests.adapters.openai_agents.scripted import PIXEL, Scripted, call, say, think


@function_tool
def find(to: str) -> str:
    """Find a flight."""
    return f"9:40 to {to}"


@function_tool
def picture(of: str) -> ToolOutputImage:
    """Show something."""
    return ToolOutputImage(image_url=PIXEL, detail="low")


def plain() -> Agent:
    """Reasoning, then two calls at once, then an answer."""
    first = [
        think("Look it up."),
        call("find", {"to": "Oslo"}, "c1"),
        call("find", {"to": "B"}, "c2"),
    ]
    model = Scripted(
        first, [call("picture", {"of": "Oslo"}, "c3")], [say("9:40")], [say("Bye", "m2")]
    )
    return Agent(name="travel", model=model, tools=[find, picture])


def handing_over() -> Agent:
    """One agent hands the conversation to another."""
    answers = [call("find", {"to": "Oslo"}, "c2")], [say("9:40")], [say("Bye", "m2")]
    other = Agent(name="travel", model=Scripted(*answers), tools=[find])
    model = Scripted([call("transfer_to_travel", {}, "c1")], [call("transfer_to_travel", {}, "c9")])
    return Agent(name="front", model=model, handoffs=[other])


INPUTS: list[Any] = [
    "Oslo?",
    [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "And this?"},
                {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
            ],
        }
    ],
]


async def converse(make: Callable[[], Agent], session: Any, streamed: bool) -> list[Any]:
    """Two runs, one after the other; answers what the models were asked."""
    agent = make()
    for given in INPUTS:
        if streamed:
            result = Runner.run_streamed(agent, given, session=session)
            async for _ in result.stream_events():
                pass
        else:
            await Runner.run(agent, given, session=session)
    models = [agent.model, *(other.model for other in agent.handoffs if isinstance(other, Agent))]
    return [model.asked for model in models if isinstance(model, Scripted)]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("make", [plain, handing_over])
def test_the_same_as_on_the_sqlite_session(
    store_url: str, colour: str, make: Callable[[], Agent], streamed: bool
) -> None:
    async def main() -> None:
        theirs = SQLiteSession("s")
        expected = await converse(make, theirs, streamed)
        async with opened(store_url, colour) as store:
            ours = LedgerSession(store, "s")
            assert await converse(make, ours, streamed) == expected
            assert await ours.get_items() == await theirs.get_items()
            await check_one_history(store)
        theirs.close()

    asyncio.run(main())


async def check_one_history(store: AnyStore) -> None:
    """What the SDK wrote are messages like all others."""
    found = await of(store.messages.history("s"))
    calls = [one.name for message in found for one in message.tool_calls]
    assert "find" in calls
    assert found[0].text == "Oslo?"
    results = [one for one in found if one.role == "tool"]
    assert len(results) >= 2
    report = await of(store.admin.verify("s"))
    assert report.ok


def test_a_program_without_a_loop(adapter_store: Store) -> None:
    """Runner.run_sync over a blocking store: nothing here is async."""
    session = LedgerSession(adapter_store, "s")
    model = Scripted([call("find", {"to": "Oslo"}, "c1")], [say("9:40")])
    agent = Agent(name="a", model=model, tools=[session.once(find)])
    # The SDK takes the thread's loop and leaves it open; this one is closed.
    with closing(asyncio.new_event_loop()) as loop:
        asyncio.set_event_loop(loop)
        assert Runner.run_sync(agent, "Oslo?", session=session).final_output == "9:40"
        asyncio.set_event_loop(None)
    roles = [one.role for one in adapter_store.messages.last("s")]
    assert roles == ["user", "assistant", "tool", "assistant"]


def test_a_run_on_a_branch(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, ids.new_id())
            await Runner.run(Agent(name="a", model=Scripted([say("one")])), "1", session=session)
            other = await session.create_branch("try-2", items=1)
            model = Scripted([say("two")])
            await Runner.run(Agent(name="a", model=model), "2", session=other)
            assert [item.get("content") for item in model.asked[0]] == ["1", "2"]
            assert len(await session.get_items()) == 2
            assert len(await other.get_items()) == 3

    asyncio.run(main())


def test_a_run_goes_on_with_what_others_said(store_url: str) -> None:
    """A conversation that began without the SDK is the history of its run."""
    from ledgerstone import assistant, tool_call, tool_result, user

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            look = assistant([tool_call("find", {"to": "Oslo"}, id="c1")])
            given = [user("Oslo?"), look, tool_result("c1", "9:40"), assistant("At 9:40.")]
            await store.messages.append("s", *given, create=True)
            model = Scripted([say("Yes.")])
            result = await Runner.run(
                Agent(name="a", model=model), "Sure?", session=LedgerSession(store, "s")
            )
            assert result.final_output == "Yes."
            kinds = [item.get("type", item.get("role")) for item in model.asked[0]]
            assert kinds == ["user", "function_call", "function_call_output", "assistant", "user"]
            last = await store.messages.last("s", 2)
            assert [one.text for one in last] == ["Sure?", "Yes."]

    asyncio.run(main())
