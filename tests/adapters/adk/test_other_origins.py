"""Sessions that ADK did not make, and messages of others in those that it made."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from google.genai import types

from ledgerstone import Store, assistant, formats, user
from ledgerstone.adapters.adk import LedgerArtifactService, LedgerSessionService, store_id
from ledgerstone.records.messages import message
from ledgerstone.records.parts import ToolResult
from tests.adapters.adk.scripted import KEY, calls, event, run, texts

TEXT = types.Part(text="kept")


def test_sessions_of_other_frameworks(adapter_store: Store) -> None:
    adapter_store.sessions.create(id="mine", user="ada")
    adapter_store.messages.append("mine", user("hi"), assistant("hello"))
    adapter_store.sessions.create(id="bobs", user="bob")
    adapter_store.messages.append("nobodys", user("hi"), create=True)
    strict = LedgerSessionService(adapter_store)
    open_to_all = LedgerSessionService(adapter_store, unowned=True)

    async def work() -> None:
        got = await strict.get_session(**KEY, session_id="mine")
        assert got is not None
        assert texts(got.events) == ["hi", "hello"]
        again = await strict.get_session(**KEY, session_id="mine")
        assert again is not None
        assert again.events == got.events
        await strict.append_event(got, event("from ADK", state={"n": 1}))
        assert await strict.get_session(**KEY, session_id="bobs") is None
        assert await strict.get_session(**KEY, session_id="nobodys") is None
        assert await open_to_all.get_session(**KEY, session_id="bobs") is None
        assert await open_to_all.get_session(**KEY, session_id="nobodys") is not None
        await strict.delete_session(**KEY, session_id="bobs")

    run(work())
    assert [one.text for one in adapter_store.messages.last("mine")] == ["hi", "hello", "from ADK"]
    assert adapter_store.sessions.exists("bobs")


def test_a_fork_opens_by_its_id(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        made = await service.create_session(**KEY, session_id="s")
        one = await service.append_event(made, event("one", state={"n": 1}))
        await service.append_event(made, event("two", state={"n": 2}))
        adapter_store.sessions.fork(store_id(**KEY, session_id="s"), at=one.id, new_id="try-2")
        fork = await service.get_session(**KEY, session_id="try-2")
        assert fork is not None
        assert texts(fork.events) == ["one"]
        await service.append_event(fork, event("other"))
        listed = (await service.list_sessions(**KEY)).sessions
        assert [one.id for one in listed] == ["s", "try-2"]
        assert listed[0].state == {"n": 2}
        with pytest.raises(AlreadyExistsError, match="try-2 already exists"):
            await service.create_session(**KEY, session_id="try-2")
        fork = await service.get_session(**KEY, session_id="try-2")
        assert fork is not None
        assert texts(fork.events) == ["one", "other"]

    run(work())


def test_an_object_made_by_hand_of_what_opens_by_its_id(adapter_store: Store) -> None:
    adapter_store.sessions.create(id="mine", user="ada")
    adapter_store.messages.append("mine", user("hi"))
    adapter_store.sessions.create(id="bobs", user="bob")
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        got = await service.get_session(**KEY, session_id="mine")
        assert got is not None
        by_hand = Session.model_validate_json(got.model_dump_json())
        await service.append_event(by_hand, event("from ADK"))
        with pytest.raises(SessionNotFoundError):
            await service.append_event(Session(**KEY, id="bobs"), event("no"))

    run(work())
    assert [one.text for one in adapter_store.messages.last("mine")] == ["hi", "from ADK"]


def test_artifacts_are_of_the_session_that_opens(adapter_store: Store) -> None:
    """Of a fork or of another framework's: in the same place, and gone with it."""
    adapter_store.sessions.create(id="mine", user="ada")
    adapter_store.sessions.create(id="bobs", user="bob")
    adapter_store.messages.append("nobodys", user("hi"), create=True)
    adapter_store.artifacts.put("chart", b"x", session="mine", media_type="image/png")
    service = LedgerArtifactService(adapter_store)
    open_to_all = LedgerArtifactService(adapter_store, unowned=True)

    async def work() -> None:
        assert await service.list_artifact_keys(**KEY, session_id="mine") == ["chart"]
        for name in ("mine", "bobs", "nobodys"):
            where = {**KEY, "session_id": name}
            assert await service.save_artifact(**where, filename="f", artifact=TEXT) == 0
            assert await service.load_artifact(**where, filename="f") == TEXT
        nobodys = {**KEY, "session_id": "nobodys"}
        assert await open_to_all.list_artifact_keys(**nobodys) == []
        await LedgerSessionService(adapter_store).delete_session(**KEY, session_id="mine")
        assert await service.list_artifact_keys(**KEY, session_id="mine") == []

    run(work())
    # What is not this user's to open was not touched.
    assert adapter_store.artifacts.list(session="bobs") == []
    assert adapter_store.artifacts.list(session="nobodys") == []


def test_what_others_say_in_a_session_of_adk(adapter_store: Store) -> None:
    id = store_id(**KEY, session_id="s")
    service = LedgerSessionService(adapter_store)
    made = run(service.create_session(**KEY, session_id="s"))
    content = calls(("book", {"city": "Oslo"}))
    assert content.parts is not None
    assert content.parts[0].function_call is not None
    content.parts[0].function_call.id = "c1"
    run(service.append_event(made, event(content=content)))
    answer = message("tool", [ToolResult("c1", {"seat": "12A"})])
    adapter_store.messages.append(id, answer, assistant("Booked."), user("Thanks"))

    async def got(recent: int | None = None) -> Any:
        config = GetSessionConfig(num_recent_events=recent)
        return await service.get_session(**KEY, session_id="s", config=config)

    async def work() -> None:
        whole = await got()
        # The answer has the name of the call, though another program wrote it.
        (response,) = whole.events[1].get_function_responses()
        assert (response.name, response.response) == ("book", {"seat": "12A"})
        assert [(one.author, texts([one])) for one in whole.events[2:]] == [
            ("model", ["Booked."]),
            ("user", ["Thanks"]),
        ]
        # However many are asked for, an event stays the one it is.
        assert (await got(2)).events == whole.events[2:]
        assert all(one.invocation_id for one in whole.events)
        bare = type(made)(**KEY, id="s", events=whole.events)
        await service.append_event(bare, event("You are welcome."))
        assert texts((await got(1)).events) == ["You are welcome."]

    run(work())


ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Two trips, please"},
    {"type": "function_call", "call_id": "a", "name": "book", "arguments": '{"city":"Oslo"}'},
    {"type": "function_call", "call_id": "b", "name": "book", "arguments": '{"city":"Rome"}'},
    {"type": "function_call_output", "call_id": "a", "output": "12A"},
    {"type": "function_call_output", "call_id": "b", "output": "3C"},
]


def test_the_newest_events_of_many_items(adapter_store: Store) -> None:
    """Items of one answer are one event, wherever the part of the history that is read begins."""
    adapter_store.sessions.create(id="mine", user="ada")
    service = LedgerSessionService(adapter_store)

    async def got(recent: int | None) -> Session:
        config = GetSessionConfig(num_recent_events=recent)
        found = await service.get_session(**KEY, session_id="mine", config=config)
        assert found is not None
        return found

    for item in ITEMS:
        adapter_store.messages.append("mine", formats.keep("openai", item))
        whole = run(got(None)).events
        for recent in range(1, 5):
            assert run(got(recent)).events == whole[-recent:]
    assert len(whole) == 3
    by_hand = Session(**KEY, id="mine", events=whole)
    run(service.append_event(by_hand, event("Booked.")))
    assert texts(run(got(1)).events) == ["Booked."]


def test_an_own_event_without_an_invocation(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)
    made = run(service.create_session(**KEY, session_id="s"))
    run(service.append_event(made, event("bare", invocation_id="")))
    got = run(service.get_session(**KEY, session_id="s"))
    assert got is not None
    assert got.events == made.events
