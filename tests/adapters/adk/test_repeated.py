"""An event that is in the session already and is sent again: the same one changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session

from ledgerstone import Store
from ledgerstone.adapters.adk import LedgerSessionService, store_id
from ledgerstone.adapters.importing.adk_sessions import aimport_sessions
from tests.adapters.adk.foreign import rows, write_file
from tests.adapters.adk.scripted import KEY, calls, event, on, run, served, texts

HERE: dict[str, Any] = {**KEY, "session_id": "s"}


async def opened(service: LedgerSessionService, recent: int | None = None) -> Session:
    config = GetSessionConfig(num_recent_events=recent)
    found = await service.get_session(**HERE, config=config)
    assert found is not None
    return found


def again(one: Event) -> Event:
    return one.model_copy(deep=True)


def a_few() -> list[Event]:
    call = calls(("pay", {"eur": 1, "x": None}))
    return [
        event(at=99.0, id="call", content=call, long_running_tool_ids={"b", "a"}),
        event("said", at=100.25, id="e1", state={"n": 1, "user:n": 1, "temp:t": object()}),
        event("more", at=101.1234567, id="e2", state={"n": 2, "user:n": 2}),
    ]


@pytest.mark.parametrize("recent", [None, 1, 0])
def test_imported_events(store_url: str, colour: str, tmp_path: Path, recent: int | None) -> None:
    path = tmp_path / "adk.db"
    write_file(path, rows({("trips", "ada", "s"): ({"n": 2}, a_few_lasting())}))

    async def work(store: Any) -> None:
        await aimport_sessions(store, path)
        service = LedgerSessionService(store)
        made, stale = await opened(service, recent), await opened(service, recent)
        shown = texts(made.events)
        await service.append_event(made, event("goes on", id="own", state={"n": 3}))
        for one in a_few():
            for known in (made, stale):
                sent = again(one)
                assert await service.append_event(known, sent) is sent
        assert texts(made.events) == [*shown, "goes on"]
        assert texts(stale.events) == shown
        assert (made.state["n"], stale.state["n"]) == (3, 2)
        await service.append_event(made, event("and on"))
        got = await opened(service)
        assert texts(got.events) == ["", "said", "more", "goes on", "and on"]
        assert got.state["n"] == 3
        with pytest.raises(AlreadyExistsError, match="e1 exists with other content"):
            await service.append_event(got, event("other", at=100.25, id="e1"))
        with pytest.raises(StaleSessionError):
            await service.append_event(stale, event("new"))

    on(store_url, colour, work)


def a_few_lasting() -> list[Event]:
    found = a_few()
    del found[1].actions.state_delta["temp:t"]
    return found


def test_own_events_that_an_object_does_not_show(store_url: str, colour: str) -> None:
    async def work(service: LedgerSessionService) -> None:
        made = await service.create_session(**HERE)
        for one in a_few():
            await service.append_event(made, one)
        last = await opened(service, 1)
        for one in a_few():
            await service.append_event(last, one)
        # An old event at the end, with the state of then, would be another history.
        assert texts(last.events) == ["more"]
        assert last.state == {"n": 2, "user:n": 2}
        await service.append_event(last, event("goes on"))
        assert texts((await opened(service)).events) == ["", "said", "more", "goes on"]

    served(store_url, colour, work)


def test_an_event_after_what_an_object_has_not_seen(store_url: str, colour: str) -> None:
    async def work(service: LedgerSessionService) -> None:
        made = await service.create_session(**HERE)
        old = await opened(service)
        for one in a_few():
            await service.append_event(made, one)
        # It misses two: knowing the third must not make it one that has seen everything.
        await service.append_event(old, a_few()[2])
        with pytest.raises(StaleSessionError, match="reload"):
            await service.append_event(old, event("not seen"))
        assert texts((await opened(service)).events) == ["", "said", "more"]

    served(store_url, colour, work)


def test_events_of_a_fork(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)
    made = run(service.create_session(**HERE))
    for one in a_few():
        run(service.append_event(made, one))
    fork = adapter_store.sessions.fork(store_id(**HERE))
    copy = run(service.get_session(**KEY, session_id=fork.id))
    assert copy is not None
    for one in a_few():
        run(service.append_event(copy, one))
    with pytest.raises(AlreadyExistsError, match="e1 exists with other content"):
        run(service.append_event(copy, event("other", id="e1")))
    run(service.append_event(copy, event("goes on")))
    assert adapter_store.messages.count(fork.id) == 4
    assert adapter_store.admin.verify().ok


def test_an_object_made_by_hand(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)
    run(service.create_session(**HERE))
    by_hand = Session(**KEY, id="s")
    run(service.append_event(by_hand, event("one", id="e")))
    run(service.append_event(Session(**KEY, id="s"), again(by_hand.events[0])))
    with pytest.raises(StaleSessionError):
        run(service.append_event(Session(**KEY, id="s"), event("two")))
