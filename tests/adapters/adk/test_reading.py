"""Which events of a session are read, and that no more is done for them than needed."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from ledgerstone import Store
from ledgerstone.adapters.adk import LedgerSessionService, reading
from ledgerstone.adapters.adk.events import events_of, native_of
from tests.adapters.adk.scripted import KEY, event, run, texts

CALL = types.Part.from_function_call(name="f", args={})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, "abcde"),
        ({"num_recent_events": 2}, "de"),
        ({"num_recent_events": 0}, ""),
        ({"num_recent_events": 99}, "abcde"),
        ({"after_timestamp": 30.0}, "cde"),
        ({"after_timestamp": 0}, "abcde"),
        ({"after_timestamp": -5.0}, "abcde"),
        ({"after_timestamp": 51.0}, ""),
        ({"after_timestamp": 20.0, "num_recent_events": 3}, "cde"),
        ({"after_timestamp": 40.0, "num_recent_events": 3}, "de"),
    ],
)
def test_which_events(adapter_store: Store, config: Any, expected: str) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        made = await service.create_session(**KEY, session_id="s")
        for n, text in enumerate("abcde", start=1):
            await service.append_event(made, event(text, at=10.0 * n))
        asked = None if config is None else GetSessionConfig(**config)
        got = await service.get_session(**KEY, session_id="s", config=asked)
        assert got is not None
        assert "".join(texts(got.events)) == expected
        # What was left out of the object does not make it stale.
        await service.append_event(got, event("f", at=60.0))

    run(work())


def test_a_long_history_is_read_from_its_end(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        made = await service.create_session(**KEY, session_id="s")
        for n in range(450):
            await service.append_event(made, event(str(n), at=float(n)))
        config = GetSessionConfig(after_timestamp=20.0)
        got = await service.get_session(**KEY, session_id="s", config=config)
        assert got is not None
        assert texts(got.events) == [str(n) for n in range(20, 450)]

    run(work())


def test_a_negative_number_of_events(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)
    config = GetSessionConfig()
    config.num_recent_events = -1
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        run(service.get_session(**KEY, session_id="s", config=config))


def test_more_events_than_can_be_counted(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)
    made = run(service.create_session(**KEY, session_id="s"))
    run(service.append_event(made, event("one")))
    for many in (1 << 62, 1 << 63, 10**30):
        config = GetSessionConfig(num_recent_events=many)
        got = run(service.get_session(**KEY, session_id="s", config=config))
        assert got is not None
        assert got.events == made.events


def test_the_cost_follows_the_answer(adapter_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    service = LedgerSessionService(adapter_store)
    made: list[int] = []

    def counted(natives: Any) -> list[Event]:
        made.append(len(natives))
        return events_of(natives)

    async def work() -> None:
        session = await service.create_session(**KEY, session_id="s")
        for n in range(250):
            await service.append_event(session, event(str(n), at=float(n)))
        monkeypatch.setattr(reading, "events_of", counted)
        for since in (240, 205, 3):
            made.clear()
            config = GetSessionConfig(after_timestamp=float(since))
            got = await service.get_session(**KEY, session_id="s", config=config)
            assert got is not None
            assert texts(got.events) == [str(n) for n in range(since, 250)]
            assert made == [250 - since]

    run(work())


@pytest.mark.parametrize(
    "content",
    [
        None,
        types.Content(role="user"),
        types.Content(role="user", parts=[]),
        types.Content(parts=[types.Part(text="")]),
        types.Content(role="model", parts=[types.Part(text="a"), types.Part(text="b")]),
        types.Content(role="model", parts=[types.Part(text="a", thought=True)]),
        types.Content(role="model", parts=[types.Part(text="h\u00e9"), CALL]),
    ],
)
def test_texts_are_what_validating_them_gives(content: types.Content | None) -> None:
    native = native_of(event(content=content))
    (made,), wanted = events_of([native]), Event.model_validate(native)
    assert made == wanted
    for unset in (False, True):
        dumped = made.model_dump_json(exclude_unset=unset)
        assert dumped == wanted.model_dump_json(exclude_unset=unset)
    again, _ = events_of([native, native])
    if again.content and again.content.parts:
        again.content.parts[0].text = "changed"
    assert events_of([native]) == [wanted]
