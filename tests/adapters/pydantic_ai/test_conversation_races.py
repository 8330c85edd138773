"""Writers of one conversation at the same time, and sessions that go or are made again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from pydantic_ai.conversation_store import ConversationConflict, ConversationRecord

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.pydantic_ai import LedgerConversationStore, conversation_store
from ledgerstone.adapters.pydantic_ai.conversation_records import RecordState, look
from ledgerstone.adapters.sync_async import of
from tests.adapters.pydantic_ai.samples import on_store
from tests.adapters.pydantic_ai.talks import ask, loaded, recorded, talk, texts

AnyStore = Store | AsyncStore


def test_every_writer_gets_through(store_url: str, colour: str) -> None:
    """Who loads again after a conflict loses nothing, and nothing of others; forks are whole."""

    async def work(store: AnyStore) -> None:
        talks = LedgerConversationStore(store)
        await talks.save(talk("begin"))

        async def write(n: int) -> None:
            for k in range(4):
                while True:
                    now = await loaded(talks)
                    now.messages.extend(ask(f"{n} asks {k}", f"{n} goes on {k}"))
                    try:
                        await talks.save(now)
                        break
                    except ConversationConflict:
                        continue
            await talks.fork("c", new_conversation_id=f"f{n}")

        await asyncio.gather(*map(write, range(5)))
        said = [one.text for one in await of(store.messages.history("c"))]
        turns = list(zip(said[1::2], said[2::2], strict=True))
        expected = [(f"{n} asks {k}", f"{n} goes on {k}") for n in range(5) for k in range(4)]
        assert sorted(turns) == expected
        for n in range(5):
            fork = [one.text for one in await of(store.messages.history(f"f{n}"))]
            assert fork == said[: len(fork)]
            assert len(fork) % 2 == 1

    on_store(store_url, colour, work)


def interfering(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any], times: int = 1) -> None:
    """Something happens right after the adapter looked, so many times."""
    left = [act] * times

    async def looked(store: AnyStore, id: str) -> RecordState:
        place = await look(store, id)
        if left:
            thread = Thread(target=left.pop())
            thread.start()
            thread.join()
        return place

    monkeypatch.setattr(conversation_store, "look", looked)


def test_who_looks_again(adapter_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no matter of the conversation may happen at any time."""
    talks = LedgerConversationStore(adapter_store)
    asyncio.run(talks.save(talk("a")))
    now = asyncio.run(loaded(talks))

    def note() -> None:
        adapter_store.usage.record("c", "m", {"input": 1})

    interfering(monkeypatch, note, 3)
    now.messages.extend(ask("b"))
    asyncio.run(talks.save(now))
    interfering(monkeypatch, note)
    asyncio.run(talks.delete_record("c", expected_revision=str(now.revision)))
    assert adapter_store.sessions.get("c") is None


@pytest.mark.parametrize("deletes", [False, True])
def test_a_session_that_was_made_again(
    adapter_store: Store, monkeypatch: pytest.MonkeyPatch, deletes: bool
) -> None:
    """At the same revision, behind the back of whoever looked: nothing of the new one is lost."""
    talks = LedgerConversationStore(adapter_store)
    asyncio.run(talks.save(talk("a")))
    now = asyncio.run(loaded(talks))
    now.messages.extend(ask("b"))

    def again() -> None:
        adapter_store.sessions.purge("c")
        asyncio.run(LedgerConversationStore(adapter_store).save(talk("of another life")))

    record = asyncio.run(recorded(talks))
    interfering(monkeypatch, again)
    changed = ConversationRecord(conversation_id="c", head_id=record.head_id)
    with pytest.raises(ConversationConflict):
        asyncio.run(
            talks.delete_record("c", expected_revision=record.revision)
            if deletes
            else talks.write_record(changed, expected_revision=record.revision)
        )
    assert texts(adapter_store) == ["of another life"]


def test_a_source_that_goes(adapter_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left of a fork of what is not there any more."""
    talks = LedgerConversationStore(adapter_store)
    asyncio.run(talks.save(talk("a")))

    async def go() -> None:
        record = await recorded(talks)
        adapter_store.sessions.purge("c")
        fork = ConversationRecord(conversation_id="f", head_id=record.head_id)
        with pytest.raises(ConversationConflict):
            await talks.write_record(fork, expected_revision=None)
        with pytest.raises(LookupError):
            await talks.read_history(record.head_id)

    asyncio.run(go())
    assert adapter_store.sessions.count() == 0
