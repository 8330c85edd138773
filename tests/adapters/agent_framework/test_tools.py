"""Tools as executions: known answers, calls nobody finished, calls the history does not know."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_framework import Agent, Content, Message, MiddlewareFailure, tool
from agent_framework.exceptions import ToolException

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.agent_framework import LedgerHistoryProvider, LedgerToolMiddleware
from ledgerstone.adapters.agent_framework.tools import CallsLeft
from ledgerstone.adapters.sync_async import of
from ledgerstone.errors import ExecutionUnresolved, InvalidValue
from tests.adapters.agent_framework import dying
from tests.adapters.agent_framework.scripted import ScriptedClient, on_store

AnyStore = Store | AsyncStore


class Till:
    """What acts on the world, and how often it did."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.broken = False

    def tool(self, **how: Any) -> Any:
        @tool(**how)
        def pay(eur: int) -> str:
            """Pay."""
            self.paid.append(eur)
            if self.broken:
                raise ToolException("no paper")
            return f"paid {eur}"

        return pay


def call(eur: int, id: str = "c1", **more: Any) -> Content:
    return Content.from_function_call(id, "pay", arguments={"eur": eur}, **more)


def agent(
    store: AnyStore, guard: LedgerToolMiddleware, tools: list[Any], *script: Any
) -> tuple[Agent[Any], Any]:
    """As another process would make it."""
    client = ScriptedClient(*script)
    history = LedgerHistoryProvider(store, user="ada")
    made: Agent[Any] = Agent(client, context_providers=[history], tools=tools, middleware=[guard])
    return made, made.create_session(session_id="trip")


def test_calls_are_written_down(store_url: str, colour: str) -> None:
    """Providers use their ids again, in one run and in the next."""

    async def work(store: AnyStore) -> None:
        till, guard = Till(), LedgerToolMiddleware(store, user="ada")
        script = [[call(1)], [call(1)], [call(2), call(3, "c2")], ["done"], [call(1)], ["again"]]
        clerk, session = agent(store, guard, [till.tool()], *script)
        assert (await clerk.run("pay", session=session)).text == "done"
        assert (await clerk.run("once more", session=session)).text == "again"
        assert sorted(till.paid) == [1, 1, 1, 2, 3]
        other = LedgerToolMiddleware(store)
        clerk, session = agent(store, other, [till.tool()], [call(4)], ["and again"])
        assert (await clerk.run("once more", session=session)).text == "and again"
        done = await of(store.executions.list(session="trip"))
        assert len(done) == 6
        assert {(one.tool, one.status) for one in done} == {("pay", "succeeded")}
        assert done[0].arguments == {"eur": 1}
        assert [one.user for one in (await of(store.sessions.list())).items] == ["ada"]
        assert await other.recover("trip") == []

    on_store(store_url, colour, work)


def test_a_streamed_run(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        till, guard = Till(), LedgerToolMiddleware(store)
        clerk, session = agent(store, guard, [till.tool()], [call(1)], ["done"])
        stream = clerk.run("pay", session=session, stream=True)
        assert "".join([update.text async for update in stream]).endswith("done")
        (made,) = await of(store.executions.list(session="trip"))
        assert made.status == "succeeded"
        assert await guard.recover("trip") == []

    on_store(store_url, colour, work)


def test_two_workers(store_url: str, colour: str) -> None:
    """What another one has under way is not known, and nothing is called beside it."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    till = Till()

    @tool
    async def pay(eur: int) -> str:
        """Pay."""
        till.paid.append(eur)
        begun.set()
        await go_on.wait()
        return "paid"

    async def work(store: AnyStore) -> None:
        workers = []
        for _ in range(2):
            guard = LedgerToolMiddleware(store)
            workers.append(agent(store, guard, [pay], [call(1)], ["done"]))
        (first, session), (second, other) = workers
        running = asyncio.ensure_future(first.run("pay", session=session))
        await begun.wait()
        with pytest.raises(MiddlewareFailure) as caught:
            await second.run("pay", session=other)
        assert isinstance(caught.value.__cause__, ExecutionUnresolved)
        go_on.set()
        assert (await running).text == "done"

    on_store(store_url, colour, work)
    assert till.paid == [1]


def test_a_failed_call_is_told_and_tried_again(adapter_store: Store) -> None:
    till, guard = Till(), LedgerToolMiddleware(adapter_store)
    till.broken = True

    async def go() -> None:
        clerk, session = agent(adapter_store, guard, [till.tool()], [call(1)], ["broken"])
        await clerk.run("pay", session=session)
        till.broken = False
        other = LedgerToolMiddleware(adapter_store)
        clerk, session = agent(adapter_store, other, [till.tool()], [call(1)], ["done"])
        assert (await clerk.run("again", session=session)).text == "done"

    asyncio.run(go())
    done = adapter_store.executions.list(session="trip")
    assert [one.status for one in done] == ["failed", "succeeded"]
    assert "no paper" in done[0].error
    assert till.paid == [1, 1]


def test_an_approved_call_that_is_replayed(adapter_store: Store) -> None:
    """The process that made it died before the run was stored; the approval is handed in again."""
    till = Till()
    tools = [till.tool(approval_mode="always_require")]

    async def go() -> None:
        guard = LedgerToolMiddleware(adapter_store)
        clerk, session = agent(adapter_store, guard, tools, [call(7)], ["not reached"])
        asked = (await clerk.run("pay", session=session)).user_input_requests[0]
        saved = session.to_dict()
        answer = Message("user", [asked.to_function_approval_response(True)])
        for script in ([], [["done"]]):
            other = LedgerToolMiddleware(adapter_store)
            clerk, session = agent(adapter_store, other, tools, *script)
            session = type(session).from_dict(saved)
            if script:
                assert (await clerk.run(answer, session=session)).text == "done"
                continue
            with pytest.raises(IndexError):
                await clerk.run(answer, session=session)

    asyncio.run(go())
    assert till.paid == [7]


def test_a_call_that_the_history_asks_for(adapter_store: Store) -> None:
    """Left behind by a run whose messages were stored one by one: only its result is missing."""
    till, guard = Till(), LedgerToolMiddleware(adapter_store)
    history = LedgerHistoryProvider(adapter_store)

    async def go() -> None:
        clerk: Agent[Any] = Agent(
            ScriptedClient([call(1)]),
            context_providers=[history],
            tools=[till.tool()],
            middleware=[guard],
            require_per_service_call_history_persistence=True,
        )
        with pytest.raises(IndexError):
            await clerk.run("pay", session=clerk.create_session(session_id="trip"))
        assert [one.role for one in await history.get_messages("trip")] == ["user", "assistant"]
        assert len(await guard.recover("trip")) == 1
        assert await guard.recover("trip") == []
        *_, asked, told = await history.get_messages("trip")
        assert (asked.contents[0].call_id, told.contents[0].call_id) == ("c1", "c1")
        assert told.contents[0].result == "paid 1"
        assert len(adapter_store.messages.history("trip")) == 3

    asyncio.run(go())


def test_only_some_tools(adapter_store: Store) -> None:
    till, guard = Till(), LedgerToolMiddleware(adapter_store, tools=["book"])

    async def go() -> None:
        clerk, session = agent(adapter_store, guard, [till.tool()], [call(1)], ["done"])
        await clerk.run("pay", session=session)

    asyncio.run(go())
    assert till.paid == [1]
    assert adapter_store.executions.list(session="trip") == []


def test_after_a_store_that_failed_nothing_goes_on(adapter_store: Store) -> None:
    """The tool has acted and nobody could write it down: the model must not try again."""
    till, guard = Till(), LedgerToolMiddleware(adapter_store)

    @tool
    def pay(eur: int) -> str:
        """Pay."""
        till.paid.append(eur)
        adapter_store.sessions.delete("trip")
        return "paid"

    async def go() -> None:
        clerk, session = agent(adapter_store, guard, [pay], [call(1)], [call(1)], ["never"])
        with pytest.raises(MiddlewareFailure):
            await clerk.run("pay", session=session)
        adapter_store.sessions.restore("trip")
        with pytest.raises(MiddlewareFailure) as caught:
            await clerk.run("again", session=session)
        assert isinstance(caught.value.__cause__, ExecutionUnresolved)

    asyncio.run(go())
    assert till.paid == [1]


def test_a_tool_that_ends_the_run(adapter_store: Store) -> None:
    """What other tools of the run did is not in the history, and not forgotten."""
    till, guard = Till(), LedgerToolMiddleware(adapter_store)

    @tool
    def stop() -> str:
        """Stop."""
        raise MiddlewareFailure("enough")

    async def go() -> None:
        end = Content.from_function_call("c2", "stop", arguments={})
        tools = [till.tool(), stop]
        clerk, session = agent(adapter_store, guard, tools, [call(1)], [end], [call(1)], ["done"])
        with pytest.raises(MiddlewareFailure, match="enough"):
            await clerk.run("pay", session=session)
        with pytest.raises(MiddlewareFailure) as caught:
            await clerk.run("again", session=session)
        assert isinstance(caught.value.__cause__, CallsLeft)

    asyncio.run(go())
    assert till.paid == [1]


def test_without_a_session(adapter_store: Store) -> None:
    till, guard = Till(), LedgerToolMiddleware(adapter_store)

    async def go() -> None:
        client = ScriptedClient([call(1)])
        clerk: Agent[Any] = Agent(client, tools=[till.tool()], middleware=[guard])
        with pytest.raises(MiddlewareFailure) as caught:
            await clerk.run("pay")
        assert isinstance(caught.value.__cause__, InvalidValue)

    asyncio.run(go())
    assert till.paid == []


def test_messages_taken_away_on_purpose(adapter_store: Store) -> None:
    """Their calls are not left behind."""
    till = Till()

    async def go() -> None:
        for _ in range(2):
            guard = LedgerToolMiddleware(adapter_store)
            clerk, session = agent(adapter_store, guard, [till.tool()], [call(1)], ["done"])
            await clerk.run("pay", session=session)
            adapter_store.messages.clear("trip")
        adapter_store.messages.append("trip", {"role": "user", "content": "anew"})
        assert await LedgerToolMiddleware(adapter_store).recover("trip") == []

    asyncio.run(go())
    assert till.paid == [1, 1]


@pytest.mark.crash
@pytest.mark.parametrize("where", ["pay", "paid"])
def test_killed(lasting_url: str, tmp_path: Path, where: str) -> None:
    """In the tool, or after its outcome was written down and before the run was stored."""
    log = tmp_path / "log"
    program = f"from {dying.__name__} import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, lasting_url, str(log), where, "guarded"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == -9, done.stderr
    with Store.open(lasting_url) as store:
        asyncio.run(after(store, dying.Diary(log, ""), where))
    assert log.read_text().split().count("pay") == 1


async def after(store: Store, diary: dying.Diary, where: str) -> None:
    """The model asks for the same again, under another id, and the tool is not called."""
    cause = CallsLeft if where == "paid" else ExecutionUnresolved
    with pytest.raises(MiddlewareFailure) as caught:
        await dying.guarded(store, diary, "c2")
    assert isinstance(caught.value.__cause__, cause)
    guard = LedgerToolMiddleware(store)
    if where == "pay":
        with pytest.raises(ExecutionUnresolved) as unknown:
            await guard.recover("talk")
        store.executions.finish(unknown.value.execution, result="paid, says the bank")
        with pytest.raises(MiddlewareFailure):
            await dying.guarded(store, diary, "c2")
    (left,) = await guard.recover("talk")
    assert left.tool == "pay"
    assert await guard.recover("talk") == []
    client = ScriptedClient(["It is paid."])
    history = LedgerHistoryProvider(store)
    told: Agent[Any] = Agent(client, context_providers=[history])
    await told.run("Well?", session=told.create_session(session_id="talk"))
    (result,) = [one.contents[0] for one in client.asked[0] if one.role == "tool"]
    assert result.result == ("paid" if where == "paid" else "paid, says the bank")
