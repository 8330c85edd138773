"""One conversation, handed from library to library and back: what is said stays the same."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from ledgerstone import Store, assistant, formats, system, tool_call, tool_result, user
from ledgerstone.formats.natives import _format
from ledgerstone.formats.objects import from_objects, to_objects
from ledgerstone.records.messages import Message
from ledgerstone.records.parts import (
    AnyPart,
    Image,
    Json,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from tests.formats.flow import flow
from tests.formats.values import DATA

# ADK and its libraries warn about themselves when they are imported.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

FORMATS = tuple(formats.NAMES)
RING = ("langchain", "openai", "pydantic-ai", "adk")
PLACE = {"city": "Oslo", "days": [1, 2]}


def conversation(n: int = 1) -> list[Message]:
    """A prompt, an image, reasoning, two calls at once, an error, an answer."""
    return [
        system("You are a travel agent."),
        user(["What is this place?", Image(data=DATA, media_type="image/png")]),
        assistant(
            [
                Reasoning("A harbour; I should look twice."),
                "Let me look.",
                tool_call("look", PLACE, id=f"call_{n}a"),
                tool_call("weather", {"city": "Oslo"}, id=f"call_{n}b"),
            ]
        ),
        tool_result(f"call_{n}a", {"found": ["Oslo", "harbour"]}, tool_name="look"),
        tool_result(f"call_{n}b", "the service is down", tool_name="weather", is_error=True),
        assistant([Reasoning("Enough."), "It is Oslo; I could not see the weather."]),
        user("Thanks."),
        assistant("You are welcome."),
    ]


def handed_on(messages: list[Message], format: str) -> list[Message]:
    """What a library makes of a conversation: its own objects, written down again."""
    natives = formats.native(format, messages)
    objects = to_objects(format, json.loads(json.dumps(natives)))
    return formats.keep_all(format, from_objects(format, objects))


def around(messages: list[Message], ring: tuple[str, ...]) -> Iterator[tuple[str, list[Message]]]:
    for format in ring:
        messages = handed_on(messages, format)
        yield format, messages


@pytest.mark.parametrize("start", range(4))
def test_the_ring(start: int) -> None:
    ring = (*RING[start:], *RING[:start], RING[start])
    said = flow(conversation())
    for format, messages in around(conversation(), ring):
        assert flow(messages) == said, format


@pytest.mark.parametrize("start", range(len(FORMATS)))
def test_the_ring_of_all(start: int) -> None:
    ring = (*FORMATS[start:], *FORMATS[:start], FORMATS[start])
    said = flow(conversation())
    for format, messages in around(conversation(), ring):
        assert flow(messages) == said, format


@pytest.mark.parametrize(("first", "second"), list(permutations(FORMATS, 2)))
def test_every_pair(first: str, second: str) -> None:
    """There and back again; what came back is what a library that never saw it would get."""
    there = handed_on(conversation(), first)
    back = handed_on(handed_on(there, second), first)
    assert flow(back) == flow(there) == flow(conversation())


def view(format: str) -> str:
    return format.replace("-", "_")


@pytest.mark.parametrize("start", range(4))
def test_the_ring_through_sessions(any_store: Store, start: int) -> None:
    """Each library opens the session of the one before it and writes one of its own."""
    ring = (*RING[start:], *RING[:start], RING[start])
    said = flow(conversation())
    blob = any_store.blobs.put(b64decode(DATA), media_type="image/png")
    first = conversation()
    first[1] = user(["What is this place?", Image(blob=blob.ref, media_type="image/png")])
    any_store.messages.append("0", *first, create=True)
    for n, format in enumerate(ring):
        objects = getattr(any_store.session(f"{n}"), f"as_{view(format)}")()
        own = any_store.session(f"{n + 1}")
        getattr(own, f"add_{view(format)}")(objects, create=True)
        assert flow(any_store.messages.history(own.id)) == said, format
        assert getattr(own, f"as_{view(format)}")() == objects
    assert any_store.admin.verify().ok


def turn(n: int) -> list[Message]:
    """A turn of one library."""
    return conversation(n)[1:]


def test_one_session_of_all(any_store: Store) -> None:
    """Each library adds a turn; each sees all turns, and its own to the byte."""
    any_store.messages.append("trip", conversation()[0], create=True)
    added: dict[str, list[Any]] = {}
    for n, format in enumerate(FORMATS):
        natives = formats.native(format, turn(n))
        added[format] = [json.dumps(native) for native in natives]
        any_store.messages.append("trip", *formats.keep_all(format, natives))
    messages = any_store.messages.history("trip")
    said = flow(messages)
    assert said == flow(conversation()[:1]) + [
        one for n in range(len(FORMATS)) for one in flow(turn(n))
    ]
    for format in FORMATS:
        shown = formats.native(format, messages)
        texts = [json.dumps(native) for native in shown]
        own = added[format]
        assert any(texts[at : at + len(own)] == own for at in range(len(texts)))
        assert flow(formats.keep_all(format, shown)) == said
        to_objects(format, shown)


def without(kind: type) -> Callable[[list[AnyPart]], list[AnyPart]]:
    return lambda parts: [part for part in parts if not isinstance(part, kind)]


def excused(parts: list[AnyPart]) -> list[AnyPart]:
    return [replace(one, is_error=False) if isinstance(one, ToolResult) else one for one in parts]


FAULTS = {
    "calls": without(ToolCall),
    "results": without(ToolResult),
    "reasoning": without(Reasoning),
    "images": without(Image),
    "errors": excused,
    "order": lambda parts: parts[::-1],
}


class Forgetful:
    """A converter that loses something of what it reads."""

    def __init__(self, known: Any, fault: Callable[[list[AnyPart]], list[AnyPart]]) -> None:
        self._known = known
        self._fault = fault

    def read(self, native: Any) -> Any:
        found, style = self._known.read(native)
        return replace(found, body=replace(found.body, parts=self._fault(found.parts))), style

    def write(self, message: Message, style: str) -> Any:
        return self._known.write(message, style)

    def render(self, messages: Any) -> Any:
        return self._known.render(messages)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("format", RING)
def test_a_converter_that_forgets_is_caught(
    format: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ring sees it; the natives are exact even then."""
    real = _format
    broken = Forgetful(real(format), FAULTS[fault])
    monkeypatch.setattr(
        "ledgerstone.formats.natives._format", lambda name: broken if name == format else real(name)
    )
    natives = formats.native(format, conversation())
    kept = formats.keep_all(format, natives)
    assert flow(kept) != flow(conversation())
    assert formats.native(format, kept) == natives


@pytest.mark.parametrize("format", FORMATS)
def test_what_a_format_has_no_word_for(format: str) -> None:
    """It is shown as text, or kept in a free place and read from there."""
    odd = {"type": "holo", "z": 1, "a": [{"deep": "a hologram of the harbour"}]}
    source = Source(url="https://x", title="Oslo")
    messages = [
        user(["see", odd, source]),
        assistant([Text("this"), odd, Json({"k": "some value"}), source]),
        user("ok"),
    ]
    natives = formats.native(format, messages)
    text = json.dumps(natives)
    for word in ("a hologram of the harbour", "https://x", "some value"):
        assert word in text
    to_objects(format, natives)
    if format in ("langchain", "pydantic-ai", "adk"):
        kept = formats.keep_all(format, natives)
        parts = [part for one in kept for part in one.parts]
        assert parts.count(odd) == 2
        assert parts.count(source) == 2
