"""The memory service: what was said is found again, once, by its own user only."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session

from ledgerstone import ManualClock, Store
from ledgerstone.adapters.adk import LedgerMemoryService
from ledgerstone.errors import InvalidValue
from tests.adapters.adk.scripted import KEY, asks, event, on, run, says


def session(*said: str, name: str = "s", at: float = 1.0) -> Session:
    events = [event(text, at=at + n, id=f"{name}-{n}") for n, text in enumerate(said)]
    return Session(**KEY, id=name, events=events)


async def search(service: Any, query: str, **who: str) -> list[str]:
    found = await service.search_memory(**{**KEY, **who}, query=query)
    return ["".join(part.text or "" for part in one.content.parts) for one in found.memories]


def test_found_by_words(store_url: str, colour: str) -> None:
    async def work(store: Any) -> None:
        service = LedgerMemoryService(store)
        mixed = "\u79c1\u306fPython\u3092\u4f7f\u3046"
        said = session("I love Fjords", "and the sea", "", mixed)
        await service.add_session_to_memory(said)
        assert await search(service, "the fjords?") == ["I love Fjords", "and the sea"]
        assert await search(service, "python") == [mixed]
        assert await search(service, "\u4f7f\u3046") == [mixed]
        assert await search(service, "thon fjord") == []
        assert await search(service, " ") == []
        assert await search(service, "fjords", user_id="bob") == []
        assert await search(service, "fjords", app_name="notes") == []
        found = (await service.search_memory(**KEY, query="fjords")).memories[0]
        assert (found.author, found.timestamp) == ("agent", "1970-01-01T00:00:01+00:00")

    on(store_url, colour, work)


def test_added_again_it_is_there_once(store_url: str, colour: str) -> None:
    async def work(store: Any) -> None:
        service = LedgerMemoryService(store)
        for said in (session("one fish"), session("one fish", "two fish")):
            for _ in range(2):
                await service.add_session_to_memory(said)
        assert await search(service, "fish") == ["one fish", "two fish"]
        events = session("one fish", "two fish", "three fish").events
        for _ in range(2):
            await service.add_events_to_memory(**KEY, session_id="s", events=events)
        assert await search(service, "fish") == ["one fish", "two fish", "three fish"]
        # Another session may use the same ids of events for something else.
        await service.add_events_to_memory(**KEY, session_id="t", events=events[:1])
        assert len(await search(service, "fish")) == 4

    on(store_url, colour, work)


def test_deleted_it_does_not_come_back(adapter_store: Store) -> None:
    service = LedgerMemoryService(adapter_store)

    async def work() -> None:
        await service.add_session_to_memory(session("secret fish", "other fish"))
        found = (await service.search_memory(**KEY, query="secret")).memories
        await service.delete_memory(**KEY, memory_id=found[0].id)
        await service.delete_memory(**KEY, memory_id="unknown")
        await service.delete_memory(**KEY)
        await service.add_session_to_memory(session("secret fish", "other fish"))
        assert await search(service, "fish") == ["other fish"]

    run(work())
    assert b"secret" not in str(list(adapter_store.memories.iter(("adk",)))).encode()


def test_said_again_it_comes_back(adapter_store: Store) -> None:
    """What was put into words on purpose is not kept away by an old deletion, nor by old words."""
    service = LedgerMemoryService(adapter_store)

    def entry(text: str) -> MemoryEntry:
        return MemoryEntry(content=asks(text), id="drink")

    async def work() -> None:
        await service.add_memory(**KEY, memories=[entry("likes tea")])
        await service.add_memory(**KEY, memories=[entry("likes coffee")])
        assert await search(service, "likes") == ["likes coffee"]
        (found,) = (await service.search_memory(**KEY, query="likes")).memories
        assert found.id == "drink"
        await service.delete_memory(**KEY, memory_id="drink")
        assert await search(service, "likes") == []
        await service.add_memory(**KEY, memories=[entry("likes water")])
        assert await search(service, "likes") == ["likes water"]

    run(work())


def test_an_event_at_no_time(adapter_store: Store) -> None:
    service = LedgerMemoryService(adapter_store)
    with pytest.raises(InvalidValue, match=r"events\[0\]\.timestamp"):
        run(service.add_session_to_memory(session("one", "two", at=1e20)))


def test_memories_in_ones_own_words(adapter_store: Store) -> None:
    service = LedgerMemoryService(adapter_store, results=2)
    entries = [
        MemoryEntry(content=asks("likes tea"), author="user", custom_metadata={"k": 1}),
        MemoryEntry(content=says("likes coffee"), id="c", timestamp="2026-01-01T00:00:00"),
    ]

    async def work() -> None:
        for _ in range(2):
            await service.add_memory(**KEY, memories=entries, custom_metadata={"from": "test"})
        found = (await service.search_memory(**KEY, query="likes")).memories
        assert [one.content for one in found] == [one.content for one in entries]
        assert [one.custom_metadata for one in found] == [
            {"from": "test", "k": 1},
            {"from": "test"},
        ]
        assert found[1].timestamp == "2026-01-01T00:00:00"
        await service.add_session_to_memory(session("likes nothing"))
        assert len(await search(service, "likes")) == 2
        bad = MemoryEntry(content=asks("x"), custom_metadata={"f": print})
        with pytest.raises(InvalidValue, match=r"memories\[0\]\.custom_metadata\.f"):
            await service.add_memory(**KEY, memories=[bad])

    run(work())


@pytest.mark.parametrize("id", ["x" * 300, "two\nlines", "plain"])
def test_deleted_by_an_id_of_any_kind(adapter_store: Store, id: str) -> None:
    service = LedgerMemoryService(adapter_store)
    run(service.add_memory(**KEY, memories=[MemoryEntry(content=asks("likes tea"), id=id)]))
    [found] = run(service.search_memory(**KEY, query="tea")).memories
    assert found.id == id
    run(service.delete_memory(**KEY, memory_id=id))
    assert run(service.search_memory(**KEY, query="tea")).memories == []


def test_as_many_vectors_as_texts(adapter_store: Store) -> None:
    service = LedgerMemoryService(adapter_store, embed=lambda texts: [])
    with pytest.raises(InvalidValue, match="embed: 1 vectors expected, got 0"):
        run(service.add_session_to_memory(session("likes tea")))
    with pytest.raises(InvalidValue, match="embed: 1 vectors expected, got 0"):
        run(service.search_memory(**KEY, query="tea"))


def test_a_memory_with_an_end() -> None:
    clock = ManualClock()
    with Store.open("memory://", clock=clock) as store:
        service = LedgerMemoryService(store)
        events = session("short lived").events
        run(service.add_events_to_memory(**KEY, events=events, custom_metadata={"ttl_s": 60}))
        assert run(search(service, "lived")) == ["short lived"]
        clock.advance(61)
        assert run(search(service, "lived")) == []


def test_found_by_nearness(store_url: str, colour: str) -> None:
    kinds = {"cat": [1.0, 0.0], "dog": [0.9, 0.1], "car": [0.0, 1.0]}

    async def embed(texts: list[str]) -> list[list[float]]:
        return [kinds.get(text, [0.99, 0.01]) for text in texts]

    async def work(store: Any) -> None:
        service = LedgerMemoryService(store, embed=embed, model="toy", results=2)
        await service.add_session_to_memory(session("car", "dog", "cat"))
        assert await search(service, "kitten") == ["cat", "dog"]
        found = (await service.search_memory(**KEY, query="kitten")).memories
        await service.delete_memory(**KEY, memory_id=found[0].id)
        assert await search(service, "kitten") == ["dog", "car"]

    on(store_url, colour, work)


def test_what_is_there_is_not_embedded_again(store_url: str, colour: str) -> None:
    asked: list[str] = []

    def embed(texts: list[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[1.0, float(len(text))] for text in texts]

    async def work(store: Any) -> None:
        service = LedgerMemoryService(store, embed=embed, model="toy")
        await service.add_session_to_memory(session("a", "bb"))
        found = (await service.search_memory(**KEY, query="bb")).memories
        await service.delete_memory(**KEY, memory_id=found[0].id)
        asked.clear()
        for _ in range(2):
            await service.add_session_to_memory(session("a", "bb", "ccc"))
        assert asked == ["ccc"]
        assert await search(service, "dddd") == ["ccc", "a"]
        for _ in range(2):
            entry = MemoryEntry(content=asks("said on purpose"), id="x")
            await service.add_memory(**KEY, memories=[entry])
        assert asked.count("said on purpose") == 2

    on(store_url, colour, work)


def test_tenants(adapter_store: Store) -> None:
    ours = LedgerMemoryService(adapter_store.for_tenant("acme"))
    theirs = LedgerMemoryService(adapter_store.for_tenant("globex"))
    run(ours.add_session_to_memory(session("fish")))
    assert run(search(ours, "fish")) == ["fish"]
    assert run(search(theirs, "fish")) == []


@pytest.mark.parametrize("seed", range(3))
def test_the_same_as_in_memory(adapter_store: Store, seed: int) -> None:
    words = ("red", "green", "Blue", "caf\u00e9", "\u6771\u4eac", "sea")

    async def program(service: Any) -> list[Any]:
        pick, log = random.Random(seed), []
        said = [" ".join(pick.choices(words, k=3)) for _ in range(12)]
        for n in range(15):
            if n % 3 == 0:
                count = min(len(said), n + 1)
                await service.add_session_to_memory(session(*said[:count]))
            log.append(await search(service, " ".join(pick.sample(words, 2)).upper()))
        return log

    ours = run(program(LedgerMemoryService(adapter_store)))
    assert ours == run(program(InMemoryMemoryService()))
