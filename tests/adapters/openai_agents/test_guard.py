"""Guarded tools where one process makes several runs, and where agents serve as tools."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, Runner, function_tool

from ledgerstone import AsyncStore, ids
from ledgerstone.adapters.openai_agents import LedgerSession
from ledgerstone.errors import Conflict
from tests.adapters.openai_agents.paying import DONE
from tests.adapters.openai_agents.scripted import Scripted, call, say


class Bank:
    """Pays, and knows what it paid; `ask` needs a yes."""

    def __init__(self, session: LedgerSession) -> None:
        self.paid: list[int] = []

        @function_tool
        def pay(eur: int) -> str:
            """Pay."""
            self.paid.append(eur)
            return f"paid {eur}"

        @function_tool(needs_approval=True)
        def ask(eur: int) -> str:
            """Ask and pay."""
            self.paid.append(eur)
            return f"paid {eur}"

        @function_tool
        async def wait() -> str:
            """Wait."""
            self.waits.set()
            await asyncio.sleep(60)
            return "waited"

        self.waits = asyncio.Event()
        self.tools: list[Any] = [session.once(pay), session.once(ask), wait]
        self.session = session

    def agent(self, *answers: list[Any]) -> Agent:
        return Agent(name="bank", model=Scripted(*answers), tools=self.tools)

    def front(self, inner: Agent, *answers: list[Any]) -> Agent:
        """An agent that has another one do it."""
        tool = inner.as_tool("bank", "Do it.", failure_error_function=None)
        return Agent(name="front", model=Scripted(*answers), tools=[tool, *self.tools])


def pays(eur: int) -> Any:
    return call("pay", {"eur": eur}, f"pay{eur}")


def test_what_a_cancelled_run_did_is_noticed_by_the_next(store_url: str) -> None:
    """One tool had its result when the run was cancelled: the SDK kept nothing of that turn."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            bank = Bank(LedgerSession(store, "s"))
            agent = bank.agent([pays(5), call("wait", {}, "w")], [pays(6)], [pays(7)], DONE)
            run = asyncio.ensure_future(Runner.run(agent, "Pay", session=bank.session))
            await bank.waits.wait()
            for _ in range(500):
                made = await store.executions.list(session="s")
                if [one.status for one in made] == ["succeeded"]:
                    break
                await asyncio.sleep(0.01)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            with pytest.raises(Conflict, match="pay5"):
                await Runner.run(agent, "Pay", session=bank.session)
            assert bank.paid == [5]
            (told,) = await bank.session.recover()
            assert told.call_id == "pay5"
            await Runner.run(agent, [], session=bank.session)
            assert bank.paid == [5, 7]

    asyncio.run(main())


def test_calls_of_an_agent_that_serves_as_a_tool_are_told_by_its_answer(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            for n in (1, 2):
                bank = Bank(LedgerSession(store, "s"))
                inner = bank.agent([pays(n), pays(n + 10)], [pays(n + 20)], [say("Did it.")])
                first = [call("bank", {"input": "Pay"}, f"o{n}"), pays(n + 30)]
                agent = bank.front(inner, first, DONE)
                result = await Runner.run(agent, "Pay", session=bank.session)
                assert result.final_output == "Done."
                assert sorted(bank.paid) == [n, n + 10, n + 20, n + 30]
                later = LedgerSession(store, "s")
                assert await later.recover() == []
                assert len(await later.get_items()) == 6 * n

    asyncio.run(main())


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("within", [True, False])
def test_what_was_called_before_the_question(store_url: str, saved: bool, within: bool) -> None:
    """An approval, next day or at once, with calls in the same turn that needed none."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            bank = Bank(LedgerSession(store, "s"))
            first = [pays(5), call("ask", {"eur": 9}, "ask9")]
            agent = bank.agent(first, DONE)
            if within:
                # Its own id: some versions of the SDK remember inner runs by the outer call.
                outer = call("bank", {"input": "Pay"}, ids.new_id())
                agent = bank.front(agent, [outer], DONE)
            result = await Runner.run(agent, "Pay", session=bank.session)
            assert bank.paid == [5]
            state: Any = result.to_state()
            if saved:
                (ticket,) = await bank.session.save_state(result)
                await store.tickets.resolve(ticket.id, "approve", by="ada")
                bank = Bank(LedgerSession(store, "s"))
                agent = bank.agent(DONE)
                if within:
                    agent = bank.front(agent, DONE)
                state = await bank.session.load_state(agent)
            else:
                state.approve(state.get_interruptions()[0])
            result = await Runner.run(agent, state, session=bank.session)
            assert result.final_output == "Done."
            assert bank.paid == ([9] if saved else [5, 9])
            await bank.session.save_state(result)
            assert await LedgerSession(store, "s").recover() == []

    asyncio.run(main())


def test_calls_at_once_are_not_in_each_others_way(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            bank = Bank(LedgerSession(store, "s"))
            for start in (0, 10, 20):
                agent = bank.agent([pays(start + n) for n in range(10)], DONE)
                await Runner.run(agent, "Pay", session=bank.session)
            assert sorted(bank.paid) == list(range(30))

    asyncio.run(main())
