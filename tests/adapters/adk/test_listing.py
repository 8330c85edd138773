"""Lists of sessions: complete, in order, and one read for a page of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.adk import LedgerSessionService
from ledgerstone.commands.memories import SearchMemories
from ledgerstone.commands.sessions import GetDocuments, ListSessions
from ledgerstone.intake.checks import LIMIT_MAX
from tests.adapters.adk.scripted import KEY, event, on, run

COUNT = 2 * LIMIT_MAX + 50


class Counting:
    """What a backend is asked."""

    def __init__(self, store: Store | AsyncStore, monkeypatch: pytest.MonkeyPatch) -> None:
        backend = store._handle.backend
        self.reads: list[list[type]] = []
        read, aread = backend.read, backend.aread

        def noted(queries: Any) -> Any:
            self.reads.append([type(one) for one in queries])
            return read(queries)

        async def anoted(queries: Any) -> Any:
            self.reads.append([type(one) for one in queries])
            return await aread(queries)

        # Only the one that is called from outside: some backends answer it by the other.
        if isinstance(store, AsyncStore):
            monkeypatch.setattr(backend, "aread", anoted)
        else:
            monkeypatch.setattr(backend, "read", noted)


async def fill(service: LedgerSessionService, count: int, user: str = "ada") -> None:
    for first in range(0, count, 100):
        made = [
            service.create_session(app_name="trips", user_id=user, session_id=f"{n:05}")
            for n in range(first, min(first + 100, count))
        ]
        await asyncio.gather(*made)


def test_one_read_for_each_page(
    store_url: str, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(store: Any) -> None:
        service = LedgerSessionService(store)
        await fill(service, COUNT)
        await fill(service, 10, "bob")
        counting = Counting(store, monkeypatch)
        listed = (await service.list_sessions(**KEY)).sessions
        assert sorted(one.id for one in listed) == [f"{n:05}" for n in range(COUNT)]
        times = [one.last_update_time for one in listed]
        assert times == sorted(times)
        # A few for each page, and none for a session: what others have costs nothing.
        states = [SearchMemories, SearchMemories, GetDocuments]
        assert counting.reads == [*[[ListSessions]] * 3, states]
        counting.reads.clear()
        bobs = (await service.list_sessions(app_name="trips", user_id="bob")).sessions
        assert len(bobs) == 10
        assert counting.reads == [[ListSessions], states]

    on(store_url, colour, work)


def test_each_has_its_state(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        await fill(service, 3)
        for user in ("ada", "bob"):
            made = await service.create_session(app_name="trips", user_id=user, state={"own": user})
            await service.append_event(made, event(state={"user:n": user, "app:v": 1}))
        everyone = (await service.list_sessions(app_name="trips")).sessions
        assert len(everyone) == 5
        for one in everyone:
            assert one.state["app:v"] == 1
            assert one.state["user:n"] == one.user_id
            names: dict[str, Any] = {
                "app_name": "trips",
                "user_id": one.user_id,
                "session_id": one.id,
            }
            got = await service.get_session(**names)
            assert got is not None
            assert got.state == one.state
        assert [one.state.get("own") for one in everyone if "own" in one.state] == ["ada", "bob"]

    run(work())


def test_the_one_changed_last_is_the_last(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        made = [await service.create_session(**KEY, session_id=name) for name in "abc"]
        await service.append_event(made[0], event())
        listed = (await service.list_sessions(**KEY)).sessions
        assert [one.id for one in listed] == ["b", "c", "a"]

    run(work())
