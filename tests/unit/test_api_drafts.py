"""Drafts: when text is kept while it streams, and what happens when it cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ledgerstone import (
    AsyncStore,
    Busy,
    SessionBindingMismatch,
    SessionNotFound,
    Store,
    Usage,
    user,
)
from ledgerstone.clock import SystemClock
from ledgerstone.commands import Command
from ledgerstone.commands.nodes import AnnotateNodes
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.intake.drafts import FLUSH_CHARS, FLUSH_S
from ledgerstone.testing.wrappers import Wrapper


class Shaky(Wrapper):
    """Keeps no notes for a while; counts those it was asked to keep."""

    failures = 0
    asked = 0
    wait_s = 0.0

    def write(self, command: Command[Any]) -> Any:
        if isinstance(command, AnnotateNodes):
            self.asked += 1
            if self.failures:
                self.failures -= 1
                raise Busy("try again")
        return self.inner.write(command)

    async def awrite(self, command: Command[Any]) -> Any:
        if isinstance(command, AnnotateNodes):
            await asyncio.sleep(self.wait_s)
        return self.write(command)


@pytest.fixture
def backend() -> Shaky:
    return Shaky(open_memory(None, SystemClock()))


@pytest.fixture
def store(backend: Shaky) -> Iterator[Store]:
    with Store(backend) as store:
        store.messages.append("s", user("tell me"), create=True)
        yield store


def test_a_quiet_stream_is_kept_after_a_while(backend: Shaky) -> None:
    async def main() -> None:
        async with AsyncStore(backend) as store:
            await store.sessions.create(id="s")
            turn = store.turns.begin("s")
            async with turn.draft() as draft:
                draft.write("half a ")
                draft.write("sentence")
                assert backend.asked == 1
                await asyncio.sleep(2 * FLUSH_S)
                assert backend.asked == 2
                (found,) = await store.drafts.list("s")
                assert found.text == "half a sentence"
                draft.write(", and the rest")
            await turn.commit()
            assert await store.drafts.list("s") == []
            (message,) = await store.messages.history("s")
            assert (message.id, message.text) == (draft.id, "half a sentence, and the rest")

    asyncio.run(main())


def test_much_text_is_kept_at_once_and_many_tokens_cost_few_writes(backend: Shaky) -> None:
    async def main() -> None:
        async with AsyncStore(backend) as store:
            await store.sessions.create(id="s")
            async with store.turns.begin("s") as turn, turn.draft() as draft:
                for _ in range(4 * FLUSH_CHARS // 8):
                    draft.write("12345678")
                    await asyncio.sleep(0)
                assert 3 <= backend.asked <= 6
            assert len((await store.messages.last("s"))[0].text) == 4 * FLUSH_CHARS

    asyncio.run(main())


def test_a_chunk_on_the_way_does_not_bring_the_draft_back(backend: Shaky) -> None:
    async def main() -> None:
        backend.wait_s = 0.1
        async with AsyncStore(backend) as store:
            await store.sessions.create(id="s")
            async with store.turns.begin("s") as turn, turn.draft() as draft:
                draft.write("x" * FLUSH_CHARS)
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.3)
            assert await store.drafts.list("s") == []

    asyncio.run(main())


def test_a_cancelled_stream_leaves_all_of_its_text(backend: Shaky) -> None:
    async def main() -> None:
        async with AsyncStore(backend) as store:
            await store.sessions.create(id="s")

            async def stream() -> None:
                async with store.turns.begin("s") as turn, turn.draft(id="d") as draft:
                    draft.write("so far")
                    await asyncio.sleep(30)

            task = asyncio.create_task(stream())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [d.text for d in await store.drafts.list("s")] == ["so far"]
            assert await store.messages.count("s") == 0

    asyncio.run(main())


def test_a_store_that_is_busy_for_a_while_loses_no_text(backend: Shaky) -> None:
    async def main() -> None:
        async with AsyncStore(backend) as store:
            await store.sessions.create(id="s")
            async with store.turns.begin("s") as turn, turn.draft() as draft:
                backend.failures = 2
                for n in range(3):
                    draft.write(str(n) * FLUSH_CHARS)
                    await asyncio.sleep(0.01)
                await asyncio.sleep(3 * FLUSH_S)
                (found,) = await store.drafts.list("s")
                assert found.text == draft.text

    asyncio.run(main())


def test_a_session_that_went_away_is_told_to_the_writer(backend: Shaky) -> None:
    async def main() -> None:
        async with AsyncStore(backend) as store:
            await store.sessions.create(id="s")

            async def stream() -> None:
                async with store.turns.begin("s") as turn, turn.draft() as draft:
                    await store.sessions.purge("s")
                    for _ in range(100):
                        draft.write("x" * FLUSH_CHARS)
                        await asyncio.sleep(0.01)

            with pytest.raises(SessionNotFound):
                await stream()

    asyncio.run(main())


def test_the_blocking_writer_keeps_text_when_it_writes(backend: Shaky, store: Store) -> None:
    with store.turns.begin("s") as turn, turn.draft(model="m") as draft:
        draft.write("x")
        assert backend.asked == 1
        draft.write("y" * FLUSH_CHARS)
        assert backend.asked == 2
        backend.failures = 1
        draft.write("z" * FLUSH_CHARS)
        draft.write("!" * FLUSH_CHARS)
        (found,) = store.drafts.list("s")
        assert found.text == draft.text
        draft.set(usage=Usage(1, 2), finish_reason="stop")
    (message,) = store.messages.last("s", 1)
    assert message.text == draft.text
    assert (message.body.model, message.body.finish_reason) == ("m", "stop")
    assert message.usage == Usage(1, 2)


def test_a_draft_in_a_new_session_makes_it(store: Store) -> None:
    with store.turns.begin("new", create=True) as turn:
        turn.user("hi")
        with turn.draft() as draft:
            assert store.sessions.exists("new")
            assert store.messages.count("new") == 0
            draft.write("yo")
    assert [m.text for m in store.messages.history("new")] == ["hi", "yo"]


def test_a_draft_of_another_session_is_not_adopted(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.turns.begin("s").draft(id="d"):
        raise ZeroDivisionError
    (found,) = store.drafts.list("s")
    with pytest.raises(SessionBindingMismatch):
        store.turns.begin("t").adopt(found)
    assert store.drafts.discard("d", session="s") is True
