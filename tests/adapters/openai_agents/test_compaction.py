"""Histories are made shorter at once or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agents import Agent, OpenAIResponsesCompactionSession, Runner, SQLiteSession, function_tool
from agents.memory.session import is_openai_responses_compaction_aware_session

from ledgerstone import AsyncStore, assistant, tool_call, user
from ledgerstone.adapters.openai_agents import CompactingLedgerSession, LedgerSession
from tests.adapters.conftest import opened
from tests.adapters.openai_agents.paying import DONE, PAY, PAY_TWO, Desk
from tests.adapters.openai_agents.scripted import Scripted, call, say


def said(n: int) -> Any:
    return {"role": "user", "content": f"say {n}"}


SHORT = {"role": "user", "content": "In short: Oslo."}


class Client:
    """What the SDK asks OpenAI to do, done here."""

    def __init__(self) -> None:
        self.responses = self
        self.asked: list[Any] = []

    async def compact(self, **given: Any) -> Any:
        self.asked.append(given)
        return type("Compacted", (), {"output": [SHORT], "usage": None})()


def test_snapshots(store_url: str, colour: str) -> None:
    async def main() -> None:
        async with opened(store_url, colour) as store:
            session = LedgerSession(store, "s")
            empty = await session._get_compaction_snapshot(5)
            assert (empty.items, empty.complete) == ([], True)
            assert await empty.replace_suffix(0, [SHORT]) is False
            await session.add_items([said(n) for n in range(6)])
            whole = await session._get_compaction_snapshot(6)
            assert (len(whole.items), whole.complete) == (6, True)
            part = await session._get_compaction_snapshot(4)
            assert (part.items, part.complete) == ([said(n) for n in range(2, 6)], False)
            assert await part.replace_suffix(4, [SHORT]) is False
            assert await part.replace_suffix(1, [SHORT]) is True
            assert await session.get_items() == [said(0), said(1), said(2), SHORT]
            # Somebody wrote since.
            assert await whole.replace_suffix(0, [SHORT]) is False
            late = await session._get_compaction_snapshot(9)
            await session.add_items([said(7)])
            assert await late.replace_suffix(0, []) is False
            last = await session._get_compaction_snapshot(2)
            assert await last.replace_suffix(0, [SHORT]) is True
            assert await session.get_items() == [said(0), said(1), said(2), SHORT]
            assert await session._atomic_replace_items([SHORT]) is True
            assert await session.get_items() == [SHORT]

    asyncio.run(main())


def test_a_cut_through_a_message_of_two_items(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            both = assistant(["I look.", tool_call("find", {"to": "Oslo"}, id="c1")])
            await store.messages.append("s", user("Oslo?"), both, create=True)
            session = LedgerSession(store, "s")
            before = await session.get_items()
            snapshot = await session._get_compaction_snapshot(2)
            assert snapshot.items == before
            assert await snapshot.replace_suffix(2, [SHORT]) is True
            assert await session.get_items() == [*before[:2], SHORT]

    asyncio.run(main())


def test_a_prefix_is_pruned(store_url: str) -> None:
    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            session = LedgerSession(store, "s")
            await session.add_items([said(n) for n in range(6)])
            snapshot = await session._get_compaction_snapshot(
                2, prune_prefix=lambda item: item["content"] in ("say 0", "say 1", "say 3")
            )
            assert await snapshot.replace_suffix(1, [SHORT]) is True
            assert await session.get_items() == [said(2), said(3), said(4), SHORT]

    asyncio.run(main())


@function_tool
def find(to: str) -> str:
    """Find."""
    return "9:40"


def test_the_compaction_of_the_sdk(store_url: str, colour: str) -> None:
    """Its wrapper over our session does what it does over its own."""

    async def talk(inner: Any) -> tuple[list[Any], list[Any]]:
        client: Any = Client()
        session = OpenAIResponsesCompactionSession(
            "s",
            inner,
            client=client,
            compaction_mode="input",
            should_trigger_compaction=lambda found: len(found["session_items"]) > 4,
        )
        answers = [call("find", {"to": "Oslo"}, "c1")], [say("9:40")], [say("Yes", "m2")]
        agent = Agent(name="a", model=Scripted(*answers), tools=[find])
        for given in ("Oslo?", "Sure?"):
            await Runner.run(agent, given, session=session)
        compacted = await session.get_items()
        await session.add_items([said(1), said(2)])
        await session.run_compaction({"force": True})
        return [compacted, await session.get_items()], client.asked

    async def main() -> None:
        theirs = SQLiteSession("s")
        async with opened(store_url, colour) as store:
            ours = LedgerSession(store, "s")
            found = await talk(ours)
            assert found == await talk(theirs)
            assert found[0][0] == [SHORT]
            assert len(found[1]) == 2
        theirs.close()

    asyncio.run(main())


@pytest.mark.parametrize("waits", [False, True])
def test_a_summariser_of_ones_own(store_url: str, waits: bool) -> None:
    async def later(items: list[Any]) -> list[Any] | None:
        return shorter(items)

    def shorter(items: list[Any]) -> list[Any] | None:
        return [SHORT] if len(items) > 3 else None

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            plain = LedgerSession(store, "s")
            assert not is_openai_responses_compaction_aware_session(plain)
            session = CompactingLedgerSession(store, "s", compact=later if waits else shorter)
            assert is_openai_responses_compaction_aware_session(session)
            await session.run_compaction()
            agent = Agent(name="a", model=Scripted([say("one")], [say("two", "m2")]))
            await Runner.run(agent, "1", session=session)
            assert len(await session.get_items()) == 2
            await Runner.run(agent, "2", session=session)
            assert await session.get_items() == [SHORT]
            # What stood there is superseded, not lost to verify and time travel.
            assert (await store.admin.verify("s")).ok

    asyncio.run(main())


def test_a_call_that_waits_for_a_yes_is_not_summarised_away(store_url: str) -> None:
    """Its result will follow, and no model takes a result without its call."""

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            asked: list[int] = []

            def shorter(items: list[Any]) -> list[Any] | None:
                asked.append(len(items))
                return [SHORT] if len(items) > 4 else None

            session = CompactingLedgerSession(store, "s", compact=shorter)
            desk = Desk(session, PAY, DONE, PAY_TWO[1:], DONE)
            (ticket,) = await session.save_state(await desk.start())
            assert asked == []
            await store.tickets.resolve(ticket.id, "approve", by="ada")
            await session.save_state(await desk.resume())
            assert asked == [4]
            # One that nobody waits for any more is no reason to leave the rest as it is.
            await desk.start()
            await desk.start("Never mind")
            assert asked == [4, 8]
            assert await session.get_items() == [SHORT]

    asyncio.run(main())


def test_the_encrypted_session_of_the_sdk(store_url: str) -> None:
    encrypted = pytest.importorskip("agents.extensions.memory.encrypt_session")

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            inner = LedgerSession(store, "s")
            session = encrypted.EncryptedSession("s", inner, encryption_key="key", ttl=600)
            await session.add_items([said(1), said(2)])
            assert await session.get_items() == [said(1), said(2)]
            assert all("payload" in item for item in await inner.get_items())
            assert await session.pop_item() == said(2)
            assert [one.text for one in await store.messages.last("s")] == [""]

    asyncio.run(main())


def test_the_encrypted_session_with_a_wrong_key(store_url: str) -> None:
    encrypted = pytest.importorskip("agents.extensions.memory.encrypt_session")

    async def main() -> None:
        async with AsyncStore.open(store_url) as store:
            inner = LedgerSession(store, "s")
            good, bad = (
                encrypted.EncryptedSession("s", inner, encryption_key=key) for key in ("a", "b")
            )
            await good.add_items([said(1), said(2)])
            [*_, last] = await store.messages.last("s")
            assert await bad.get_items() == []
            await bad.add_items([said(3)])
            assert await bad.get_items() == [said(3)]
            assert await good.get_items() == [said(1), said(2)]
            assert await bad.pop_item() == said(3)
            # It takes off what it cannot read, until nothing is left.
            assert await bad.pop_item() is None
            assert await inner.get_items() == await good.get_items() == []
            await store.branches.create("s", "back", at=last.id)
            back = encrypted.EncryptedSession("s", inner.branch("back"), encryption_key="a")
            assert await back.get_items() == [said(1), said(2)]

    asyncio.run(main())
