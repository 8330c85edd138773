"""What model calls used is store data, counted once."""

from __future__ import annotations

import asyncio

import pytest
from agents import Agent, Runner, function_tool

from ledgerstone import AsyncStore, Usage
from ledgerstone.adapters.openai_agents import LedgerHooks, LedgerSession
from ledgerstone.errors import BudgetExceeded
from tests.adapters.conftest import opened
from tests.adapters.openai_agents.scripted import Scripted, call, say

ONE = Usage(input=100, output=10, cached_input=40, reasoning=3, total=110)


@function_tool
def find(to: str) -> str:
    """Find."""
    return "9:40"


def agent() -> Agent:
    other = Agent(name="b", model=Scripted([say("9:40")], name="small"))
    answers = [call("find", {"to": "Oslo"}, "c1")], [call("transfer_to_b", {}, "c2")]
    return Agent(name="a", model=Scripted(*answers, name="large"), tools=[find], handoffs=[other])


@pytest.mark.parametrize("how", ["hooks", "result", "both", "streamed"])
def test_recorded_per_model_and_once(store_url: str, how: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s", user="ada")
            hooks = None if how == "result" else LedgerHooks(session)
            if how == "streamed":
                streamed = Runner.run_streamed(agent(), "Oslo?", session=session, hooks=hooks)
                async for _ in streamed.stream_events():
                    pass
            else:
                result = await Runner.run(agent(), "Oslo?", session=session, hooks=hooks)
                if how != "hooks":
                    await session.record_usage(result)
                    await session.record_usage(result)
            sums = {one.by["model"]: one for one in await store.usage.summary(session="s")}
            assert {name: one.calls for name, one in sums.items()} == {"large": 2, "small": 1}
            assert sums["small"].usage == ONE
            assert sums["large"].usage.input == 200
            by_user = await store.usage.summary(by=("user", "source"))
            assert [one.by for one in by_user] == [{"user": "ada", "source": "openai-agents"}]

    asyncio.run(main())


def test_the_name_of_the_model_may_be_given(store_url: str, colour: str) -> None:
    async def main() -> None:
        async with opened(store_url, colour) as store:
            session = LedgerSession(store, "s")
            hooks = LedgerHooks(session, model="gpt-5")
            result = await Runner.run(agent(), "Oslo?", session=session, hooks=hooks)
            await session.record_usage(result)
            await session.record_usage(result, model="gpt-6")
            found = store.usage.summary(session="s")
            sums = found if isinstance(found, list) else await found
            assert [(one.by["model"], one.calls) for one in sums] == [("gpt-5", 3)]

    asyncio.run(main())


def test_what_was_used_is_recorded_beyond_a_budget(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")
            await session.add_items([{"role": "user", "content": "Oslo?"}])
            await store.usage.budget(session="s", tokens=50)
            result = await Runner.run(agent(), "Oslo?", session=session)
            await session.record_usage(result)
            (left,) = await store.usage.remaining("s")
            assert left.tokens_left is not None
            assert left.tokens_left <= 0
            with pytest.raises(BudgetExceeded):
                await store.usage.check(session="s")

    asyncio.run(main())
