"""Interrupted runs are kept, people decide on tickets, and the run goes on with what they said."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, Runner, UserError

from ledgerstone import AsyncStore
from ledgerstone.adapters.openai_agents import LedgerSession
from ledgerstone.errors import (
    InvalidValue,
    LeafMoved,
    NotSupported,
)
from tests.adapters.conftest import opened
from tests.adapters.openai_agents.paying import DONE, PAY, PAY_TWO, Desk
from tests.adapters.openai_agents.scripted import Scripted, call, say


def decide(url: str, store: Any, colour: str, ticket: str, word: str, **how: Any) -> None:
    """As another thread does it, over the same store when it is a blocking one."""
    if colour == "blocking":
        store.tickets.resolve(ticket, word, by="ada", **how)
    else:
        asyncio.run(_decide(url, store, ticket, word, **how))


async def _decide(url: str, store: Any, ticket: str, word: str, **how: Any) -> None:
    if url.startswith("memory"):
        await store.tickets.resolve(ticket, word, by="ada", **how)
        return
    async with AsyncStore.open(url) as other:
        await other.tickets.resolve(ticket, word, by="ada", **how)


def test_approved(store_url: str, colour: str) -> None:
    async def main() -> None:
        async with opened(store_url, colour) as store:
            desk = Desk(LedgerSession(store, "s", user="ada"), PAY, DONE)
            assert await desk.session.load_state(desk.agent) is None
            (ticket,) = await desk.session.save_state(await desk.start(), expires_s=86400)
            assert (ticket.tool, ticket.arguments) == ("pay", {"eur": 120})
            assert ticket.expires_us is not None
            await asyncio.to_thread(decide, store_url, store, colour, ticket.id, "approve")
            later = Desk(LedgerSession(store, "s"), DONE)
            result = await later.resume()
            assert result.final_output == "Done."
            assert (desk.paid, later.paid) == ([], [120])
            assert await later.session.save_state(result) == []
            assert await later.session.load_state(later.agent) is None

    asyncio.run(main())


def test_rejected_with_words(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            (ticket,) = await desk.session.save_state(await desk.start())
            await store.tickets.resolve(ticket.id, "reject", by="ada", reason="Too much.")
            await desk.resume()
            assert desk.paid == []
            assert desk.outputs() == ["Too much."]

    asyncio.run(main())


def test_half_decided(store_url: str) -> None:
    """What is not decided stays interrupted, under the same ticket."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY_TWO, DONE)
            first, second = await desk.session.save_state(await desk.start())
            result = await desk.resume()
            assert len(result.interruptions) == 2
            assert [one.id for one in await desk.session.save_state(result)] == [
                first.id,
                second.id,
            ]
            await store.tickets.resolve(first.id, "approve", by="ada")
            result = await desk.resume()
            (left,) = await desk.session.save_state(result)
            assert (left.id, desk.paid) == (second.id, [120])
            await store.tickets.resolve(second.id, "approve", by="ada")
            result = await desk.resume()
            assert (result.final_output, desk.paid) == ("Done.", [120, 7])

    asyncio.run(main())


def test_saving_the_same_state_again_changes_nothing(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            result = await desk.start()
            (ticket,) = await desk.session.save_state(result)
            head = await store.sessions.head("s")
            assert [one.id for one in await desk.session.save_state(result.to_state())] == [
                ticket.id
            ]
            assert await store.sessions.head("s") == head
            # Unless the branch stands elsewhere by now: then it is kept for that place.
            await desk.session.add_items([{"role": "user", "content": "Wait"}])
            (again,) = await desk.session.save_state(result)
            assert again.id == ticket.id
            await store.tickets.resolve(ticket.id, "approve", by="ada")
            assert (await desk.resume()).final_output == "Done."

    asyncio.run(main())


def test_an_old_yes_is_no_answer_to_a_new_question(store_url: str) -> None:
    """A provider that counts its call ids from one must not be served by an old approval."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE, PAY, DONE, once=False)
            (ticket,) = await desk.session.save_state(await desk.start())
            await store.tickets.resolve(ticket.id, "approve", by="ada")
            await desk.session.save_state(await desk.resume())
            (again,) = await desk.session.save_state(await desk.start("Again"))
            assert again.id != ticket.id
            assert (await desk.resume()).interruptions

    asyncio.run(main())


def test_a_run_that_went_on_is_not_repeated(store_url: str) -> None:
    """A crash between the end of the resumed run and save_state."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            (ticket,) = await desk.session.save_state(await desk.start())
            await store.tickets.resolve(ticket.id, "approve", by="ada")
            await desk.resume()
            items = await desk.session.get_items()
            later = Desk(LedgerSession(store, "s"), DONE)
            with pytest.raises(LeafMoved):
                await later.resume()
            result = await later.resume(rewind=True)
            assert result.final_output == "Done."
            # The result is known, so the tool was not called for it.
            assert (desk.paid, later.paid) == ([120], [])
            assert later.outputs() == ["paid 120"]
            assert await later.session.get_items() == items

    asyncio.run(main())


def test_a_state_that_can_not_be_gone_on_with_takes_nothing_back(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            (ticket,) = await desk.session.save_state(await desk.start())
            await store.tickets.resolve(ticket.id, "approve", by="ada", arguments={"eur": 5})
            await desk.resume()
            items = await desk.session.get_items()
            plain = Desk(LedgerSession(store, "s"), DONE, once=False)
            with pytest.raises(NotSupported):
                await plain.resume(rewind=True)
            with pytest.raises(UserError):
                await plain.session.load_state(Agent(name="another"), rewind=True)
            assert await desk.session.get_items() == items
            # What it stood at is not there any more.
            await desk.session.clear_session()
            with pytest.raises(LeafMoved):
                await desk.resume(rewind=True)

    asyncio.run(main())


def test_what_is_no_state(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            with pytest.raises(InvalidValue, match="given"):
                await LedgerSession(store, "s").save_state(None)

    asyncio.run(main())


@pytest.mark.parametrize("given", ['{"eur": NaN}', '{"eur": 1e999}', '{"eur": 5'])
def test_arguments_that_are_not_json(store_url: str, given: str) -> None:
    """The tool tells the model so, as it does without us."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            odd = [PAY[0].model_copy(update={"arguments": given})]
            desk = Desk(LedgerSession(store, "s"), odd, DONE)
            (ticket,) = await desk.session.save_state(await desk.start())
            assert ticket.arguments == given
            await store.tickets.resolve(ticket.id, "approve", by="ada")
            result = await desk.resume()
            assert (result.final_output, desk.paid) == ("Done.", [])
            assert "error" in desk.outputs()[0]

    asyncio.run(main())


def test_a_withdrawn_ticket_is_a_no(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            (ticket,) = await desk.session.save_state(await desk.start())
            await store.tickets.cancel(ticket.id)
            await desk.resume()
            assert (desk.paid, desk.outputs()) == ([], ["Nobody decided on this call."])

    asyncio.run(main())


def test_a_run_that_ended_withdraws_its_questions(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            (ticket,) = await desk.session.save_state(await desk.start())
            other = Agent(name="b", model=Scripted(DONE))
            await desk.session.save_state(
                await Runner.run(other, "Never mind", session=desk.session)
            )
            found = await store.tickets.get(ticket.id)
            assert found is not None
            assert found.status == "withdrawn"

    asyncio.run(main())


def test_states_of_branches_are_apart(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")
            desk = Desk(session, PAY, DONE)
            await session.save_state(await desk.start())
            other = await session.create_branch("try-2")
            assert await other.load_state(desk.agent) is None
            assert await session.load_state(desk.agent) is not None

    asyncio.run(main())


def test_a_context_goes_along(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            result = await Runner.run(
                desk.agent, "Pay", session=desk.session, context={"who": "ada"}
            )
            await desk.session.save_state(result, strict_context=True)
            state = await desk.session.load_state(desk.agent, strict_context=True)
            assert state is not None
            assert state.to_json()["context"]["context"] == {"who": "ada"}

    asyncio.run(main())


def test_a_context_that_is_not_json(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY, DONE)
            context = {"who": float("nan")}
            result = await Runner.run(desk.agent, "Pay", session=desk.session, context=context)
            with pytest.raises(InvalidValue, match=r"state\.context.*who"):
                await desk.session.save_state(result)
            assert await desk.session.load_state(desk.agent) is None

    asyncio.run(main())


def test_a_question_of_an_agent_that_serves_as_a_tool(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")
            inner = Desk(session, PAY, [say("Inner done.")])
            tool = inner.agent.as_tool(tool_name="ask_desk", tool_description="Ask")
            first = [call("ask_desk", {"input": "Pay"}, "o1")]
            outer = Agent(name="outer", model=Scripted(first, DONE), tools=[tool])
            (ticket,) = await session.save_state(await Runner.run(outer, "Go", session=session))
            assert (ticket.tool, ticket.call_id) == ("pay", "c1")
            await store.tickets.resolve(ticket.id, "approve", by="ada")
            state = await session.load_state(outer)
            assert state is not None
            result = await Runner.run(outer, state, session=session)
            assert (result.final_output, inner.paid) == ("Done.", [120])

    asyncio.run(main())


def test_a_question_whose_time_is_over_is_a_no(store_url: str) -> None:
    """Without a worker that settles it: nobody could answer it, and nobody would ask again."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            desk = Desk(LedgerSession(store, "s"), PAY_TWO, DONE)
            first, _ = await desk.session.save_state(await desk.start(), expires_s=0.5)
            await store.tickets.resolve(first.id, "approve", by="ada")
            await asyncio.sleep(0.6)
            result = await desk.resume()
            assert (result.final_output, desk.paid) == ("Done.", [120])
            assert desk.outputs() == ["paid 120", "Nobody decided on this call."]

    asyncio.run(main())


def test_two_that_save_at_once_leave_one_state(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")
            one, two = Desk(session, PAY, DONE), Desk(session, PAY_TWO, DONE)
            ends = [await one.start(), await two.start()]
            await asyncio.gather(*(session.save_state(end) for end in ends))
            state = await session.load_state(two.agent)
            assert state is not None
            waiting = {ticket.call_id for ticket in (await store.tickets.inbox()).items}
            assert waiting == {item.call_id for item in state.get_interruptions()}
            await session.save_state(await Runner.run(two.agent, "No", session=session))
            assert await session.load_state(two.agent) is None
            assert (await store.tickets.inbox()).items == []

    asyncio.run(main())
