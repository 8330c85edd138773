"""Tools as executions, when others work on the session too, or a run ends at a bad moment."""

from __future__ import annotations

import asyncio
from threading import Barrier
from typing import Any

import pytest
from agent_framework import Content, Message, MiddlewareFailure, MiddlewareTermination, tool

from ledgerstone import Store
from ledgerstone.adapters.agent_framework import LedgerHistoryProvider, LedgerToolMiddleware
from ledgerstone.adapters.agent_framework.tools import CallsLeft
from ledgerstone.errors import ExecutionUnresolved, InvalidValue
from tests.adapters.agent_framework.scripted import on_store
from tests.adapters.agent_framework.test_tools import AnyStore, Till, agent, call


async def cause(run: Any) -> BaseException | None:
    """Why a run ended."""
    with pytest.raises(MiddlewareFailure) as caught:
        await run
    return caught.value.__cause__


def test_two_that_begin_at_the_same_moment(adapter_store: Store) -> None:
    """Each has looked before the other one's call was written down."""
    till, both = Till(), Barrier(2)

    class Late(LedgerToolMiddleware):
        def _remembered(self, session: str, at: Any) -> set[str]:
            both.wait(60)
            return super()._remembered(session, at)

    async def go() -> list[Any]:
        workers = [
            agent(adapter_store, Late(adapter_store), [till.tool()], [call(1)], ["done"])
            for _ in range(2)
        ]
        runs = [worker.run("pay", session=session) for worker, session in workers]
        return await asyncio.gather(*runs, return_exceptions=True)

    failed = [one for one in asyncio.run(go()) if isinstance(one, MiddlewareFailure)]
    assert failed
    assert {type(one.__cause__) for one in failed} <= {ExecutionUnresolved, CallsLeft}
    assert len(till.paid) == 2 - len(failed)
    states = [one.status for one in adapter_store.executions.list(session="trip")]
    assert states.count("failed") == len(failed)


def test_what_a_dead_worker_left_to_one_that_lives(store_url: str, colour: str) -> None:
    """It worked on the session before, and has seen the history move since."""

    async def work(store: AnyStore) -> None:
        till, lives = Till(), LedgerToolMiddleware(store)
        clerk, session = agent(store, lives, [till.tool()], [call(1)], ["done"])
        await clerk.run("pay 1", session=session)
        dies, other = agent(store, LedgerToolMiddleware(store), [till.tool()], [call(2)])
        with pytest.raises(IndexError):
            await dies.run("pay 2", session=other)
        clerk, session = agent(store, lives, [till.tool()], [call(2)], [call(3)], ["done"])
        assert isinstance(await cause(clerk.run("pay 2", session=session)), CallsLeft)
        assert till.paid == [1, 2]
        assert len(await lives.recover("trip")) == 1
        assert (await clerk.run("pay 3", session=session)).text == "done"
        assert till.paid == [1, 2, 3]

    on_store(store_url, colour, work)


def test_cancelled_while_the_outcome_is_written_down(store_url: str, colour: str) -> None:
    """The tool has acted, and the run that was to tell of it is gone."""
    written = asyncio.Event()

    async def work(store: AnyStore) -> None:
        till, guard = Till(), LedgerToolMiddleware(store)
        later = guard._runner.run_async

        async def slow(work: Any) -> Any:
            is_last = work.__name__ == "_finish"
            found = await later(work)
            if is_last and not written.is_set():
                written.set()
                await asyncio.sleep(60)
            return found

        guard._runner.run_async = slow  # type: ignore[method-assign]
        clerk, session = agent(store, guard, [till.tool()], [call(1)], [call(1)], ["done"])
        run = asyncio.ensure_future(clerk.run("pay", session=session))
        await written.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert isinstance(await cause(clerk.run("again", session=session)), CallsLeft)
        assert till.paid == [1]

    on_store(store_url, colour, work)


def test_a_tool_that_ends_the_loop_with_an_answer(adapter_store: Store) -> None:
    guard = LedgerToolMiddleware(adapter_store)

    @tool
    def pay(eur: int) -> str:
        """Pay."""
        raise MiddlewareTermination("enough", result=f"paid {eur}")

    async def go() -> None:
        clerk, session = agent(adapter_store, guard, [pay], [call(1)], ["never"])
        told = (await clerk.run("pay", session=session)).messages[-1].contents[0]
        assert told.result == "paid 1"
        assert await LedgerToolMiddleware(adapter_store).recover("trip") == []

    asyncio.run(go())
    (made,) = adapter_store.executions.list(session="trip")
    assert (made.status, made.result) == ("succeeded", "paid 1")


async def cancelled(store: Store, guard: LedgerToolMiddleware, *script: Any) -> tuple[Any, Any]:
    """An agent whose run was cancelled while its tool was at work, and the session."""
    begun = asyncio.Event()

    @tool
    async def pay(eur: int) -> str:
        """Pay."""
        begun.set()
        await asyncio.sleep(60)
        return "never"

    clerk, session = agent(store, guard, [pay], [call(1)], *script)
    run = asyncio.ensure_future(clerk.run("pay", session=session))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    return clerk, session


def test_cancelled_in_the_middle(adapter_store: Store) -> None:
    """Nobody knows what it did, so nothing more is called before somebody says it."""

    async def go() -> None:
        guard = LedgerToolMiddleware(adapter_store)
        clerk, session = await cancelled(adapter_store, guard, [call(1)], ["never"])
        assert isinstance(await cause(clerk.run("again", session=session)), ExecutionUnresolved)

    asyncio.run(go())


def test_what_somebody_said_came_of_it(adapter_store: Store) -> None:
    """In words of their own, which may look like the framework's."""

    async def go() -> None:
        guard = LedgerToolMiddleware(adapter_store)
        await cancelled(adapter_store, guard)
        (made,) = adapter_store.executions.list(session="trip")
        adapter_store.executions.finish(made.id, result=[{"type": "receipt", "number": 5}])
        assert len(await guard.recover("trip")) == 1
        told = (await LedgerHistoryProvider(adapter_store).get_messages("trip"))[-1]
        assert told.contents[0].result == '[{"number":5,"type":"receipt"}]'

    asyncio.run(go())


def test_calls_without_an_id_in_the_history(adapter_store: Store) -> None:
    """A provider may have told of a call of its own; it is nobody's call here."""
    till, guard = Till(), LedgerToolMiddleware(adapter_store)

    async def go() -> None:
        clerk, session = agent(adapter_store, guard, [till.tool()], [call(1)], ["done"])
        await clerk.run("pay", session=session)
        hosted = Message("assistant", [Content("function_call", name="search"), call(9, "c9")])
        await LedgerHistoryProvider(adapter_store).save_messages("trip", [hosted])
        other = LedgerToolMiddleware(adapter_store)
        clerk, session = agent(adapter_store, other, [till.tool()], [call(2)], ["again"])
        assert (await clerk.run("pay", session=session)).text == "again"

    asyncio.run(go())
    assert till.paid == [1, 2]


@pytest.mark.parametrize("tools", ["pay", [len], 5, [""]])
def test_names_that_would_guard_nothing(tools: Any) -> None:
    with Store.open("memory://") as store, pytest.raises(InvalidValue, match="tools"):
        LedgerToolMiddleware(store, tools=tools)
