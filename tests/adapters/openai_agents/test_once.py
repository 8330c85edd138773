"""Tools whose calls are written down: none is made twice, none without being known of."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from agents import (
    Agent,
    AgentsException,
    FunctionTool,
    RunContextWrapper,
    Runner,
    ToolOutputText,
    UserError,
    function_tool,
)
from agents.tool_context import ToolContext

from ledgerstone import AsyncStore
from ledgerstone.adapters.openai_agents import LedgerSession
from ledgerstone.errors import (
    ExecutionUnresolved,
    InvalidValue,
    NotSupported,
    TicketStale,
)
from tests.adapters.openai_agents.paying import DONE, PAY, PAY_TWO, Desk
from tests.adapters.openai_agents.scripted import PIXEL, Scripted, call


def test_edited_arguments(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            (ticket,) = await desk.session.save_state(await desk.start())
            await store.tickets.resolve(ticket.id, "approve", by="ada", arguments={"eur": 5})
            plain = Desk(LedgerSession(store, "s"), DONE, once=False)
            with pytest.raises(NotSupported, match=r"session\.once"):
                await plain.resume()
            await desk.resume()
            assert (desk.paid, desk.outputs()) == ([5], ["paid 5"])

    asyncio.run(main())


def test_a_call_without_an_outcome_stops_the_run(store_url: str) -> None:
    """A process was killed in the middle of a tool."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            (ticket,) = await desk.session.save_state(await desk.start())
            await store.tickets.resolve(ticket.id, "approve", by="ada")
            begun = await store.executions.start("s", ticket=ticket.id)
            with pytest.raises(ExecutionUnresolved):
                await desk.resume()
            assert desk.paid == []
            # Somebody looks into the matter: it never happened, so it may be done.
            await store.executions.finish(begun.id, error="never arrived at the bank")
            result = await desk.resume()
            assert (result.final_output, desk.paid) == ("Done.", [120])
            done = await store.executions.get(begun.id)
            assert done is not None
            assert (done.status, done.attempts) == ("succeeded", 2)

    asyncio.run(main())


def test_another_call_without_an_outcome_stops_the_run_too(store_url: str) -> None:
    """After a crash the model is asked again and makes up another id for the same act."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")

            @function_tool
            def pay(eur: int) -> str:
                """Pay."""
                return "paid"

            agent = Agent(name="a", model=Scripted(PAY, DONE), tools=[session.once(pay)])
            await store.sessions.create(id="s")
            lost = await store.executions.start("s", call_id="c0", tool="pay", arguments={})
            with pytest.raises(ExecutionUnresolved):
                await Runner.run(agent, "Pay", session=session)
            await store.executions.finish(lost.id, result="paid")
            agent.model = Scripted(PAY_TWO, DONE)
            result = await Runner.run(agent, "Go on", session=session)
            assert result.final_output == "Done."

    asyncio.run(main())


def test_a_tampered_state_does_not_pass_for_what_was_approved(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            (ticket,) = await desk.session.save_state(await desk.start())
            await store.tickets.resolve(ticket.id, "approve", by="ada")
            state = await desk.session.load_state(desk.agent)
            assert state is not None
            tool: Any = desk.agent.tools[0]
            context = type("Context", (), {"tool_call_id": "c1"})()
            with pytest.raises(TicketStale):
                await tool.on_invoke_tool(context, '{"eur": 9999}')
            assert desk.paid == []

    asyncio.run(main())


def test_the_rule_of_approval_of_a_tool_stays(store_url: str) -> None:
    """What the SDK would have a person look at, it has a person look at behind the guard too."""

    async def dear(context: RunContextWrapper[Any], given: dict[str, Any], id: str) -> bool:
        return bool(given["eur"] > 100)

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")

            @function_tool(needs_approval=dear)
            def pay(eur: int) -> str:
                """Pay."""
                return f"paid {eur}"

            async def outcome(tool: FunctionTool, eur: object) -> object:
                answers = [call("pay", {"eur": eur}, f"c{eur}")], DONE
                agent = Agent(name="a", model=Scripted(*answers), tools=[tool])
                try:
                    result = await Runner.run(agent, "Pay")
                except AgentsException as error:
                    return type(error)
                return len(result.interruptions)

            guarded = session.once(pay)
            assert [await outcome(guarded, eur) for eur in (5, 500)] == [0, 1]
            # The SDK's versions differ on arguments that it would have to change.
            assert await outcome(guarded, "5") == await outcome(pay, "5")

    asyncio.run(main())


def test_a_tool_that_fails_may_be_called_again(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")
            calls: list[int] = []

            @function_tool(needs_approval=True, failure_error_function=None)
            def pay(eur: int) -> str:
                """Pay."""
                calls.append(eur)
                if len(calls) == 1:
                    raise ValueError("the bank is closed")
                return "paid"

            agent = Agent(name="a", model=Scripted(PAY, DONE), tools=[session.once(pay)])
            (ticket,) = await session.save_state(await Runner.run(agent, "Pay", session=session))
            await store.tickets.resolve(ticket.id, "approve", by="ada")
            for _ in range(2):
                state = await session.load_state(agent)
                assert state is not None
                if not calls:
                    with pytest.raises(UserError, match="the bank is closed"):
                        await Runner.run(agent, state, session=session)
                else:
                    await Runner.run(agent, state, session=session)
            (made,) = await store.executions.list(session="s")
            assert (calls, made.attempts, made.result) == ([120, 120], 2, "paid")

    asyncio.run(main())


def test_a_failed_call_is_begun_again_by_one_only(store_url: str) -> None:
    calls: list[int] = []

    @function_tool(failure_error_function=None)
    async def pay(eur: int) -> str:
        """Pay."""
        calls.append(eur)
        await asyncio.sleep(0.01)
        if len(calls) == 1:
            raise ValueError("the bank is closed")
        return "paid"

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            tools: list[Any] = [LedgerSession(store, "s").once(pay) for _ in range(3)]
            context = ToolContext(None, tool_name="pay", tool_call_id="c1", tool_arguments="{}")
            with pytest.raises(ValueError, match="closed"):
                await tools[0].on_invoke_tool(context, '{"eur": 5}')
            ends = await asyncio.gather(
                *(tool.on_invoke_tool(context, '{"eur": 5}') for tool in tools[1:]),
                return_exceptions=True,
            )
            assert calls == [5, 5]
            assert "paid" in ends
            assert all(end == "paid" or isinstance(end, ExecutionUnresolved) for end in ends)

    asyncio.run(main())


def test_two_that_resume_at_once_call_the_tool_once(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY)
            (ticket,) = await desk.session.save_state(await desk.start())
            await store.tickets.resolve(ticket.id, "approve", by="ada")
            both = [Desk(LedgerSession(store, "s"), DONE) for _ in range(2)]
            ends = await asyncio.gather(*(one.resume() for one in both), return_exceptions=True)
            assert sum(len(one.paid) for one in both) == 1
            assert any(not isinstance(end, BaseException) for end in ends)

    asyncio.run(main())


def test_what_was_left_behind_on_a_branch_is_told_there(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")
            await session.add_items([{"role": "user", "content": "Pay"}])
            other = await session.create_branch("try-2")
            third = await session.create_branch("try-3")
            await other.add_items([{"role": "user", "content": "Now"}])

            @function_tool
            def pay(eur: int) -> str:
                """Pay."""
                return f"paid {eur}"

            tool: Any = other.once(pay)
            context = ToolContext(None, tool_name="pay", tool_call_id="c1", tool_arguments="{}")
            assert await tool.on_invoke_tool(context, '{"eur": 5}') == "paid 5"
            later = LedgerSession(store, "s")
            # What is taken away elsewhere says nothing about this branch.
            for one in (later, third):
                await one.add_items([{"role": "user", "content": "No"}])
                await one.pop_item()
                assert await one.recover() == []
            await third.clear_session()
            (told,) = await later.branch("try-2").recover()
            assert told.call_id == "c1"
            asked, answer = (await later.branch("try-2").get_items())[2:]
            assert (asked["name"], asked["arguments"]) == ("pay", '{"eur": 5}')
            assert answer == {"type": "function_call_output", "call_id": "c1", "output": "paid 5"}
            assert len(await later.get_items()) == 1
            assert await later.branch("try-2").recover() == []
            # Taken away on purpose, and for good: nobody is told again.
            await later.branch("try-2").clear_session()
            await store.admin.vacuum("s")
            assert await LedgerSession(store, "s").branch("try-2").recover() == []

    asyncio.run(main())


def test_what_was_left_behind_on_main_stays_known(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is taken away on a branch or said since, and however many commits ago."""
    monkeypatch.setattr("ledgerstone.adapters.openai_agents.unfinished_calls.PAGE", 2)

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")
            await session.add_items([{"role": "user", "content": "Pay"}])
            other = await session.create_branch("try-2")
            tool: Any = session.once(function_tool(lambda: "paid", name_override="pay"))
            context = ToolContext(None, tool_name="pay", tool_call_id="c1", tool_arguments="{}")
            assert await tool.on_invoke_tool(context, "{}") == "paid"
            for n in range(4):
                await other.add_items([{"role": "user", "content": f"No {n}"}])
            await other.pop_item()
            await other.clear_session()
            await other.add_items([{"role": "user", "content": "No"}])
            # An input that was taken back, as the SDK does it when it asks a model again.
            await session.add_items([{"role": "user", "content": "Well?"}])
            await session.pop_item()
            (told,) = await LedgerSession(store, "s").recover()
            assert told.call_id == "c1"
            # What is taken away here is taken away.
            await session.pop_item()
            for n in range(4):
                await other.add_items([{"role": "user", "content": f"No {n}"}])
            await store.admin.vacuum("s")
            assert await LedgerSession(store, "s").recover() == []

    asyncio.run(main())


def test_agents_as_tools_are_not_wrapped(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            inner = Agent(name="inner", model=Scripted(DONE))
            tool = inner.as_tool(tool_name="ask", tool_description="Ask")
            with pytest.raises(NotSupported, match="agent"):
                LedgerSession(store, "s").once(tool)
            with pytest.raises(InvalidValue, match="FunctionTool"):
                LedgerSession(store, "s").once("pay")  # type: ignore[arg-type]

    asyncio.run(main())


def test_a_call_that_was_cancelled_has_no_outcome(store_url: str) -> None:
    """A run that took too long is begun again by the same process; the bank may have paid."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")
            calls: list[int] = []
            begun = asyncio.Event()

            @function_tool
            async def pay(eur: int) -> str:
                """Pay."""
                calls.append(eur)
                begun.set()
                await asyncio.sleep(60 if len(calls) == 1 else 0)
                return "paid"

            again = [call("pay", {"eur": 120}, "c2")]
            agent = Agent(name="a", model=Scripted(PAY, again, DONE), tools=[session.once(pay)])
            run = asyncio.ensure_future(Runner.run(agent, "Pay", session=session))
            await begun.wait()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            with pytest.raises(ExecutionUnresolved):
                await Runner.run(agent, "Pay", session=session)
            assert calls == [120]

    asyncio.run(main())


def test_a_call_that_timed_out_is_known_as_that(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            calls: list[int] = []

            @function_tool(timeout=0.2)
            async def pay(eur: int) -> str:
                """Pay."""
                calls.append(eur)
                await asyncio.sleep(60 if len(calls) == 1 else 0)
                return "paid"

            more = [[call("pay", {"eur": n}, f"more{n}")] for n in (1, 2)]
            for model in (Scripted(PAY, more[0], DONE), Scripted(more[1], DONE)):
                session = LedgerSession(store, "s")
                agent = Agent(name="a", model=model, tools=[session.once(pay)])
                result = await Runner.run(agent, "Pay", session=session)
                assert result.final_output == "Done."
            assert calls == [120, 1, 2]

    asyncio.run(main())


@pytest.mark.parametrize(
    "answer",
    [
        {"type": "file", "path": "a", "at": datetime(2026, 1, 1, tzinfo=UTC)},
        [{"type": "text", "text": "a"}, {"type": "text", "text": float("nan")}],
        {"type": ["text"], "text": "a"},
        {"type": "image", "image_url": PIXEL, "detail": None},
        ({"type": "text", "text": "a"}, ToolOutputText(text="b")),
    ],
)
def test_answers_that_look_like_blocks(store_url: str, answer: Any) -> None:
    """The model is told the same with the guard and without, at once and after a crash."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:

            @function_tool
            def pay(eur: int) -> Any:
                """Pay."""
                return answer

            session = LedgerSession(store, "s")
            wrapped: Any = session.once(pay)
            context = ToolContext(None, tool_name="pay", tool_call_id="c1", tool_arguments="{}")
            await wrapped.on_invoke_tool(context, '{"eur": 120}')
            await LedgerSession(store, "s").recover()
            told = [(await session.get_items())[-1]["output"]]
            for tool in (pay, wrapped):
                agent = Agent(name="a", model=Scripted(PAY, DONE), tools=[tool])
                items: list[Any] = (await Runner.run(agent, "Pay")).to_input_list()
                told += [one["output"] for one in items if "output" in one]
            assert told[0] == told[1] == told[2]

    asyncio.run(main())
