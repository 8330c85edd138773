"""Whatever is kept comes back to the byte, from a real store."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledgerstone import Store, formats, user
from ledgerstone.errors import InvalidValue
from ledgerstone.formats.objects import to_objects
from tests.formats.mutations import mutated
from tests.formats.natives import natives

# ADK and its libraries warn about themselves when they are imported.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

FORMATS = tuple(formats.NAMES)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store.open("memory://") as opened:
        yield opened


def through(store: Store, format: str, given: list[Any]) -> list[str]:
    """What a store gives back, as text."""
    session = store.sessions.create()
    store.messages.append(session.id, *formats.keep_all(format, given))
    found = formats.native(format, store.messages.history(session.id))
    return [json.dumps(one) for one in found]


@pytest.mark.parametrize("format", FORMATS)
def test_every_native_comes_back(any_store: Store, format: str) -> None:
    wanted = natives(format)
    for found, native in zip(through(any_store, format, wanted), wanted, strict=True):
        assert found == json.dumps(native)


ODD: dict[str, Any] = {
    "z": [1, 1.0, -0.0, 0, 1e16, 5e-324, 1.7976931348623157e308, 1 << 70, -(1 << 64), True, None],
    "a": {"\ud800": "\ud800", "\x00": "é\x00", "\U0001f600": "", "\uffff": {}, "": [[], {}]},
    "text": '{"a": 1.0, "a": 2, "b": NaN}',
}
"""What another language, database or encoder would change without a word."""


@pytest.mark.parametrize("format", FORMATS)
def test_odd_values_come_back(any_store: Store, format: str) -> None:
    """A field that a framework has added since, with whatever can be in it, first and last."""
    wanted = [{"new": ODD, **native, "newer": ODD} for native in natives(format)]
    assert through(any_store, format, wanted) == [json.dumps(native) for native in wanted]
    session = any_store.sessions.create()
    any_store.messages.append(session.id, user(ODD["text"] + "\x00\ud800\U0001f600"))
    said = formats.native(format, any_store.messages.history(session.id))
    assert through(any_store, format, said) == [json.dumps(native) for native in said]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_word_for_is_refused(format: str, number: float) -> None:
    with pytest.raises(InvalidValue, match=rf"{format}\.new\[0\]\.deep"):
        formats.keep(format, {**natives(format)[0], "new": [{"deep": number}]})


@pytest.mark.parametrize("format", FORMATS)
def test_objects_and_lists_of_other_classes(format: str) -> None:
    """They are written like the plain ones, and so they are kept."""

    def dressed(value: Any) -> Any:
        if isinstance(value, dict):
            return OrderedDict((key, dressed(one)) for key, one in value.items())
        return tuple(map(dressed, value)) if isinstance(value, list) else value

    for native in natives(format):
        try:
            kept = formats.keep(format, dressed(native))
        except InvalidValue:
            assert format == "pydantic-ai"  # Its parts are a list.
            kept = formats.keep(format, {**dressed(native), "parts": native["parts"]})
        assert json.dumps(formats.native(format, [kept])) == json.dumps([native])


@pytest.mark.parametrize("depth", [60, 300, 900, 990, 100_000])
def test_text_may_nest_as_deep_as_it_likes(depth: int) -> None:
    arguments = '{"a":' * depth + "1" + "}" * depth
    call = {"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"}
    chunk = {"name": "f", "args": arguments, "id": "c", "index": 0, "type": "tool_call_chunk"}
    data = {"content": "", "tool_calls": [call], "tool_call_chunks": [chunk]}
    native = {"type": "AIMessageChunk", "data": data}
    assert formats.native("langchain", [formats.keep("langchain", native)]) == [native]


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_is_changed_by_keeping(format: str) -> None:
    wanted = natives(format)
    before = json.dumps(wanted)
    kept = formats.keep_all(format, wanted)
    formats.native(format, kept)
    for other in FORMATS:
        formats.native(other, kept)
    assert json.dumps(wanted) == before


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_becomes_of_a_native(store: Store, format: str, data: st.DataObject) -> None:
    """Keys dropped, added, retyped and reordered, anywhere: exact, or refused by name."""
    native = data.draw(mutated(st.sampled_from(natives(format))))
    try:
        found = through(store, format, [native])
    except InvalidValue as error:
        assert error.field.startswith(format)  # noqa: PT017
        assert is_no_native(format, native)
    else:
        assert found == [json.dumps(native)]
        kept = formats.keep(format, native)
        for other in FORMATS:
            shown = formats.native(other, [kept])
            assert other == format or to_objects(other, json.loads(json.dumps(shown))) is not None


def is_no_native(format: str, native: dict[str, Any]) -> bool:
    """Whether what makes it a native of this format at all is gone."""
    if format == "langchain":
        return not isinstance(native.get("type"), str) or not isinstance(native.get("data"), dict)
    if format == "pydantic-ai":
        known = native.get("kind") in ("request", "response")
        return not known or not isinstance(native.get("parts"), list)
    if format == "adk":
        author, content = native.get("author"), native.get("content")
        return not isinstance(author, str) and not isinstance(content, dict)
    if format == "openai":
        return not isinstance(native.get("type", native.get("role")), str)
    return not isinstance(native.get("role"), str)


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_no_native_is_refused(format: str) -> None:
    wrong: tuple[Any, ...] = ({}, {"foo": 1}, [], "text", None, 5)
    for bad in wrong:
        with pytest.raises(InvalidValue):
            formats.keep(format, bad)
    with pytest.raises(InvalidValue, match=r"\[1\]"):
        formats.keep_all(format, [natives(format)[0], {"foo": 1}])


def test_deep_natives_are_kept_flat(store: Store) -> None:
    deep: Any = "x"
    for _ in range(60):
        deep = {"b": deep}
    for native in (
        {
            "role": "user",
            "content": [{"type": "text", "text": "said"}, {"type": "odd", "deep": deep}],
        },
        {"role": "user", "content": "said", "deep": deep, "a": None},
    ):
        assert through(store, "openai", [native]) == [json.dumps(native)]
        assert formats.keep("openai", native).text == "said"


def test_amended_parts_are_what_is_shown(store: Store) -> None:
    session = store.sessions.create()
    items = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "my secret number is 12345", "x": 1}],
        },
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a", "annotations": [1]}],
        },
    ]
    first, second = store.messages.append(session.id, *formats.keep_all("openai", items))
    store.messages.amend(second.id, session=session.id, metadata={"seen": True})
    assert formats.native("openai", store.messages.history(session.id)) == items
    store.messages.amend(first.id, session=session.id, parts=["forgotten"])
    store.messages.amend(second.id, session=session.id, parts=[])
    found = json.dumps(formats.native("openai", store.messages.history(session.id)))
    assert "forgotten" in found
    assert "12345" not in found


@pytest.mark.parametrize("format", FORMATS)
def test_a_mark_that_makes_no_sense_is_none(format: str) -> None:
    """Anybody may write `extra`; then the parts are what is shown."""
    edits: tuple[Any, ...] = (["?"], ["s", "0"], {"x": ["t", 0]}, [], ["d"], {"0": 1}, "text", 5)
    marks = [5, [], [format], [[format]], [format, 5], *([format, "", edit] for edit in edits)]
    for mark in marks:
        message = user("what was said", extra={"native": mark})
        for shown in FORMATS:
            assert isinstance(formats.native(shown, [message]), list)
        assert "what was said" in json.dumps(formats.native("openai-chat", [message]))
