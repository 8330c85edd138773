"""The session service: each method, each refusal, on every kind of store in both colours."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai import types

from ledgerstone import AsyncStore, LeaseHeld, Store
from ledgerstone.adapters.adk import LedgerSessionService, store_id
from ledgerstone.errors import Fenced, InvalidValue
from tests.adapters.adk.scripted import KEY, event, on, run, served, texts


def test_create_append_get_list_delete(store_url: str, colour: str) -> None:
    async def work(service: LedgerSessionService) -> None:
        made = await service.create_session(**KEY, session_id=" s1 ", state={"a": 1})
        assert (made.id, made.state, made.events) == ("s1", {"a": 1}, [])
        first = event("one", state={"a": 2, "user:n": "ada", "app:v": None, "temp:t": object()})
        assert await service.append_event(made, first) is first
        assert set(made.state) == {"a", "user:n", "app:v", "temp:t"}
        assert "temp:t" not in first.actions.state_delta
        await service.append_event(made, event("two"))
        got = await service.get_session(**KEY, session_id="s1")
        assert got is not None
        assert got.state == {"a": 2, "user:n": "ada", "app:v": None}
        assert got.events == made.events
        assert got.last_update_time == made.last_update_time
        other = await service.create_session(**KEY)
        assert other.state == {"user:n": "ada", "app:v": None}
        listed = (await service.list_sessions(**KEY)).sessions
        assert [one.id for one in listed] == ["s1", other.id]
        assert [one.events for one in listed] == [[], []]
        assert (await service.list_sessions(app_name="trips")).sessions == listed
        assert (await service.list_sessions(app_name="other")).sessions == []
        assert await service.get_user_state(**KEY) == {"n": "ada"}
        await service.delete_session(**KEY, session_id="s1")
        await service.delete_session(**KEY, session_id="s1")
        assert await service.get_session(**KEY, session_id="s1") is None
        again = await service.create_session(**KEY, session_id="s1")
        assert again.state == {"user:n": "ada", "app:v": None}
        await service.flush()

    served(store_url, colour, work)


def test_after_an_append_the_object_equals_what_is_read(store_url: str, colour: str) -> None:
    async def work(service: LedgerSessionService) -> None:
        made = await service.create_session(**KEY, session_id="s", state={"a": 1})
        for given in (
            event("one"),
            event("two", state={"a": None, "user:n": "ada", "app:v": [1, {"x": 2.5}]}),
            Event(author="user", timestamp=1.0, custom_metadata={"k": None}),
        ):
            await service.append_event(made, given)
            got = await service.get_session(**KEY, session_id="s")
            assert got == made
            assert got is not made
        # What it has seen is the same too: either may go on, then the other is stale.
        assert got is not None
        await service.append_event(got, event("three"))
        with pytest.raises(StaleSessionError):
            await service.append_event(made, event("four"))
        assert got == await service.get_session(**KEY, session_id="s")

    served(store_url, colour, work)


def test_one_id_of_two_users_and_two_apps(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        for app in ("a", "b"):
            for name in ("ada", "bob"):
                made = await service.create_session(app_name=app, user_id=name, session_id="s")
                await service.append_event(made, event(f"{app} {name}", state={"user:x": name}))
        for app in ("a", "b"):
            got = await service.get_session(app_name=app, user_id="bob", session_id="s")
            assert got is not None
            assert texts(got.events) == [f"{app} bob"]
            assert got.state == {"user:x": "bob"}
            everyone = (await service.list_sessions(app_name=app)).sessions
            assert [one.user_id for one in everyone] == ["ada", "bob"]
        await service.delete_session(app_name="a", user_id="bob", session_id="s")
        assert await service.get_session(app_name="a", user_id="ada", session_id="s")

    run(work())


def test_taken_id(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        await service.create_session(**KEY, session_id="s", state={"user:n": 1})
        with pytest.raises(AlreadyExistsError, match="Session with id s already exists"):
            await service.create_session(**KEY, session_id="s", state={"user:n": 2})
        assert await service.get_user_state(**KEY) == {"n": 1}
        many = [service.create_session(**KEY, session_id="race") for _ in range(5)]
        done = await asyncio.gather(*many, return_exceptions=True)
        assert sum(isinstance(one, Session) for one in done) == 1
        assert sum(isinstance(one, AlreadyExistsError) for one in done) == 4

    run(work())


def test_partial_events_are_not_stored(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        made = await service.create_session(**KEY, session_id="s")
        part = event("pa", partial=True, state={"a": 1})
        assert await service.append_event(made, part) is part
        assert (made.events, made.state) == ([], {})
        got = await service.get_session(**KEY, session_id="s")
        assert got is not None
        assert (got.events, got.state) == ([], {})

    run(work())


def test_two_holders_of_one_session(store_url: str, colour: str) -> None:
    async def work(service: LedgerSessionService) -> None:
        made = await service.create_session(**KEY, session_id="s")
        mine = await service.get_session(**KEY, session_id="s")
        assert mine is not None
        # The same time in both: only the revision can tell.
        await service.append_event(made, event("first", at=made.last_update_time))
        mine.last_update_time = made.last_update_time + 100
        with pytest.raises(StaleSessionError, match="reload"):
            await service.append_event(mine, event("second", state={"app:x": 1}))
        assert mine.events == []
        fresh = await service.get_session(**KEY, session_id="s")
        assert fresh is not None
        assert texts(fresh.events) == ["first"]
        assert fresh.state == {}
        await service.append_event(fresh, event("second"))

    served(store_url, colour, work)


def test_many_appends_with_one_object(store_url: str, colour: str) -> None:
    async def work(service: LedgerSessionService) -> None:
        made = await service.create_session(**KEY, session_id="s")
        many = [service.append_event(made, event(str(n), state={str(n): n})) for n in range(20)]
        await asyncio.gather(*many)
        got = await service.get_session(**KEY, session_id="s")
        assert got is not None
        assert got.events == made.events
        assert got.state == {str(n): n for n in range(20)}
        assert not service._waiting

    served(store_url, colour, work)


def test_two_users_change_the_state_of_their_app_at_once(store_url: str, colour: str) -> None:
    async def work(service: LedgerSessionService) -> None:
        async def one(name: str) -> None:
            made = await service.create_session(app_name="a", user_id=name)
            for n in range(5):
                await service.append_event(made, event(state={f"app:{name}{n}": n}))

        await asyncio.gather(*(one(name) for name in ("ada", "bob", "cy")))
        seen = await service.create_session(app_name="a", user_id="dan")
        assert seen.state == {
            f"app:{name}{n}": n for name in ("ada", "bob", "cy") for n in range(5)
        }

    served(store_url, colour, work)


def test_an_event_that_comes_twice(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        made = await service.create_session(**KEY, session_id="s")
        old = await service.get_session(**KEY, session_id="s")
        assert old is not None
        one = event("once", state={"n": 1})
        await service.append_event(made, one)
        await service.append_event(made, event("next", state={"n": 2}))
        await service.append_event(made, one.model_copy(deep=True))
        assert texts(made.events) == ["once", "next"]
        # An answer that got lost: the same call again, with what its caller knew.
        await service.append_event(old, one.model_copy(deep=True))
        got = await service.get_session(**KEY, session_id="s")
        assert got is not None
        assert got.events == made.events
        assert got.state == {"n": 2}
        with pytest.raises(AlreadyExistsError, match="other content"):
            await service.append_event(made, event("other", id=one.id))

    run(work())


def test_objects_of_other_services(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        made = await service.create_session(**KEY, session_id="s")
        bare = Session(**KEY, id="s")
        await service.append_event(bare, event("one"))
        with pytest.raises(StaleSessionError):
            await service.append_event(made, event("two"))
        with pytest.raises(StaleSessionError, match="has not seen"):
            await service.append_event(Session(**KEY, id="s"), event("two"))
        got = await service.get_session(**KEY, session_id="s")
        assert got is not None
        known = Session(**KEY, id="s", events=got.events)
        known._storage_update_marker = "2026-11-16T12:00:00.000000"
        await service.append_event(known, event("two"))
        with pytest.raises(SessionNotFoundError):
            await service.append_event(Session(**KEY, id="nowhere"), event())
        await service.delete_session(**KEY, session_id="s")
        with pytest.raises(SessionNotFoundError, match="Session s not found"):
            await service.append_event(known, event())

    run(work())


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"deep": [1, {"f": print}]}, r"\.k\.deep\[1\]\.f: a builtin_function"),
        (float("nan"), r"\.k: nan"),
        (object(), r"\.k: a object"),
        ("\ud800", r"\.k"),
    ],
)
def test_what_has_no_json(adapter_store: Store, value: Any, path: str) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        with pytest.raises(InvalidValue, match=r"state" + path):
            await service.create_session(**KEY, session_id="s", state={"k": value})
        assert await service.get_session(**KEY, session_id="s") is None
        made = await service.create_session(**KEY, session_id="s")
        bad = event(state={"app:ok": 1, "k": value, "temp:t": 1})
        with pytest.raises(InvalidValue, match=r"(state_delta|stateDelta)" + path):
            await service.append_event(made, bad)
        assert (made.events, made.state) == ([], {})
        got = await service.get_session(**KEY, session_id="s")
        assert got is not None
        assert (got.events, got.state) == ([], {})
        with pytest.raises(InvalidValue, match=r"event\.custom_metadata\.f\.g"):
            await service.append_event(made, event(custom_metadata={"f": {"g": print}}))
        call = types.Part(function_call=types.FunctionCall(name="f", args={"a": print}))
        content = types.Content(role="model", parts=[call])
        with pytest.raises(InvalidValue, match=r"parts\[0\].function_call.args.a"):
            await service.append_event(made, event(content=content))

    run(work())


def test_values_that_pydantic_writes(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)
    when = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)

    async def work() -> None:
        made = await service.create_session(**KEY, session_id="s", state={"at": when, "b": b"\xff"})
        assert made.state == {"at": "2026-01-02T00:00:00Z", "b": "_w=="}
        await service.append_event(made, event(state={"adk": None, "box": {"adk": 1}, "self": 1}))
        got = await service.get_session(**KEY, session_id="s")
        assert got is not None
        kept = {key: got.state[key] for key in ("adk", "box", "self")}
        assert kept == {"adk": None, "box": {"adk": 1}, "self": 1}

    run(work())


def test_bad_names(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)
    for bad in ("", "a\nb", "x" * 300):
        with pytest.raises(InvalidValue, match="user"):
            run(service.create_session(app_name="a", user_id=bad, state={"user:x": 1}))
    with pytest.raises(InvalidValue, match="key"):
        run(service.create_session(**KEY, session_id="s", state={"app:" + "k" * 300: 1}))
    assert run(service.get_session(**KEY, session_id="s")) is None
    assert run(service.get_session(**KEY, session_id="")) is None
    for bad in ("", "a\nb", "x" * 300):
        with pytest.raises(InvalidValue, match="app_name"):
            run(service.create_session(app_name=bad, user_id="ada", session_id="s"))
    assert list(adapter_store.sessions.iter()) == []


@pytest.mark.parametrize("verb", ["create_session", "get_session", "delete_session"])
def test_an_id_that_is_no_text(adapter_store: Store, verb: str) -> None:
    service = LedgerSessionService(adapter_store)
    with pytest.raises(InvalidValue, match="session_id: text expected, got int"):
        run(getattr(service, verb)(**KEY, session_id=5))


@pytest.mark.parametrize(
    ("state", "text"), [([1], "state: an object expected"), ({1: 2}, "state: keys are texts")]
)
def test_a_state_that_is_none(adapter_store: Store, state: Any, text: str) -> None:
    service = LedgerSessionService(adapter_store)
    with pytest.raises(InvalidValue, match=text):
        run(service.create_session(**KEY, session_id="s", state=state))


def test_tenants(adapter_store: Store) -> None:
    ours = LedgerSessionService(adapter_store.for_tenant("acme"))
    theirs = LedgerSessionService(adapter_store.for_tenant("globex"))

    async def work() -> None:
        made = await ours.create_session(**KEY, session_id="s", state={"user:n": 1, "app:m": 2})
        await ours.append_event(made, event("secret"))
        assert await theirs.get_session(**KEY, session_id="s") is None
        assert (await theirs.list_sessions(app_name="trips")).sessions == []
        assert await theirs.get_user_state(**KEY) == {}
        with pytest.raises(SessionNotFoundError):
            await theirs.append_event(made, event("theirs"))
        await theirs.delete_session(**KEY, session_id="s")
        assert await ours.get_session(**KEY, session_id="s") is not None

    run(work())


def test_messages_and_usage_are_the_stores(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)
    id = store_id(**KEY, session_id="s")

    async def work() -> None:
        made = await service.create_session(**KEY, session_id="s")
        asked = types.Content(role="user", parts=[types.Part(text="Where to?")])
        await service.append_event(made, event(author="user", content=asked))
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=7, candidates_token_count=3, total_token_count=10
        )
        said = event("Oslo", usage_metadata=usage, model_version="m-1")
        await service.append_event(made, said)

    run(work())
    last = adapter_store.messages.last(id)
    assert [(one.role, one.text) for one in last] == [("user", "Where to?"), ("assistant", "Oslo")]
    assert adapter_store.messages.get(last[1].id, session=id) is not None
    stats = adapter_store.sessions.stats(id)
    assert (stats.calls, stats.usage.total_tokens) == (1, 10)
    session = adapter_store.sessions.get(id)
    assert session is not None
    assert (session.app, session.user) == ("trips", "ada")
    assert adapter_store.admin.verify().ok


def test_under_a_lease(store_url: str, colour: str) -> None:
    async def work(store: Any) -> None:
        async def call(method: Any, given: Any) -> Any:
            if isinstance(store, AsyncStore):
                return await method(given)
            return await asyncio.to_thread(method, given)

        service, stranger = LedgerSessionService(store), LedgerSessionService(store)
        made = await service.create_session(**KEY, session_id="s")
        id = store_id(**KEY, session_id="s")
        lease = await call(store.leases.take, id)
        with service.under(lease):
            await service.append_event(made, event("held"))
        seen: Any = await stranger.get_session(**KEY, session_id="s")
        with pytest.raises(LeaseHeld):
            await stranger.append_event(seen, event("no"))
        await call(store.leases.release, lease)
        await stranger.append_event(seen, event("yes"))
        late: Any = await service.get_session(**KEY, session_id="s")
        await call(store.leases.take, id)
        with service.under(lease), pytest.raises(Fenced):
            await service.append_event(late, event("late"))

    on(store_url, colour, work)
