"""Messages that are built without validation are those that validation would make."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from langchain_core.messages import BaseMessage, messages_from_dict

from ledgerstone.adapters.langgraph.building import _built, from_natives
from ledgerstone.adapters.langgraph.messages import KNOWN
from tests.formats.natives_langchain import NATIVES

ROUNDS = 3000
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.0, 1.5, 1 << 70, "", "text", "3", "\ud800", "é\x00"),
    *("human", "ai", "system", "tool", "remove", "AIMessageChunk", "tool_call", "success", "error"),
    *([], {}, [1], [None], ["a", {}], [["a"]], {"b": 1, "a": 2}, {"tool_calls": []}),
    *({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}, {"type": 5}),
    *({"name": "f", "args": {}, "id": "c", "type": "tool_call"}, {"name": "f", "args": {}}),
    {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    {"input_tokens": 1, "output_tokens": True, "total_tokens": 3},
)
KEYS = (
    *("type", "content", "id", "name", "args", "odd", "example", "content_blocks", "extras"),
    *("tool_calls", "input_token_details", "output_token_details", "audio", "reasoning", "status"),
)


def told(value: Any) -> Any:
    """A value with the types of everything in it, and the order of keys."""
    if isinstance(value, dict):
        return type(value), [(told(key), told(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [told(one) for one in value]
    return type(value), value


def looked_at(made: BaseMessage) -> Any:
    """All that there is of a message, and what it says of itself."""
    hidden = told(made.__pydantic_extra__), told(made.__pydantic_private__)
    own = told(made.__dict__), sorted(made.__pydantic_fields_set__)
    return type(made), own, hidden, repr(made), told(made.model_dump())


def outcome(make: Any, native: Any) -> Any:
    try:
        return looked_at(make([native])[0])
    except Exception as error:
        return type(error), str(error)


def containers(value: Any) -> list[Any]:
    """Everything inside a value that holds something."""
    if not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(found for one in inner for found in containers(one))]


def harm(draw: random.Random, native: Any) -> None:
    """Drop, add, retype or reorder something anywhere in a native."""
    inner = containers(native)
    place = draw.choice((inner[1:2] or inner) if draw.random() < 0.5 else inner)
    odd, kind = copy.deepcopy(draw.choice(ODD)), draw.choice(("drop", "add", "retype", "reorder"))
    if isinstance(place, list):
        at = draw.randrange(len(place) + 1)
        place[at : at + (kind != "add")] = [] if kind == "drop" else [odd]
        return
    keys = list(place)
    key = draw.choice(keys or KEYS)
    if kind == "drop":
        place.pop(key, None)
    elif kind == "reorder":
        draw.shuffle(keys)
        items = {one: place.pop(one) for one in keys}
        place.update(items)
    else:
        place[key if kind == "retype" else draw.choice(KEYS)] = odd


def test_every_class_is_as_validated() -> None:
    made = from_natives(copy.deepcopy(NATIVES))
    assert {type(one) for one in made} == KNOWN
    assert list(map(looked_at, made)) == list(map(looked_at, messages_from_dict(NATIVES)))
    direct = [type(one).__name__ for one in map(_built, NATIVES) if one is not None]
    assert {"AIMessage", "HumanMessage", "SystemMessage", "ToolMessage"} == set(direct)
    assert len(direct) > len(NATIVES) // 3


def edges(native: Any) -> Iterator[Any]:
    """A native with one field of it, anywhere, that is not as usual; or one object reordered."""
    for n, place in enumerate(containers(native)):
        if isinstance(place, dict):
            made = copy.deepcopy(native)
            items = list(containers(made)[n].items())
            containers(made)[n].clear()
            containers(made)[n].update(reversed(items))
            yield made
        for key in place if isinstance(place, dict) else range(len(place)):
            for odd in ODD:
                made = copy.deepcopy(native)
                containers(made)[n][key] = copy.deepcopy(odd)
                yield made


def test_edges_are_as_validated() -> None:
    calls = next(one for one in NATIVES if one["data"].get("tool_calls"))
    plain = next(one for one in NATIVES if one["data"].get("tool_calls") == [])
    answer = next(one for one in NATIVES if one["type"] == "tool")
    for native in (found for one in (calls, plain, answer) for found in edges(one)):
        wanted = outcome(messages_from_dict, copy.deepcopy(native))
        assert outcome(from_natives, native) == wanted, native


def test_harmed_natives_are_as_validated(seed: int) -> None:
    draw = random.Random(seed)
    direct = 0
    for _ in range(ROUNDS):
        native = copy.deepcopy(draw.choice(NATIVES))
        for _ in range(draw.randint(1, 3)):
            harm(draw, native)
        wanted = outcome(messages_from_dict, copy.deepcopy(native))
        assert outcome(from_natives, native) == wanted, native
        direct += isinstance(native.get("data"), dict) and _built(native) is not None
    assert direct > ROUNDS // 20  # Some harm is none, and those are built directly.


def test_what_is_built_does_not_change_the_native() -> None:
    [native] = [one for one in NATIVES if one["data"].get("id") == "m1" and one["type"] == "human"]
    before = copy.deepcopy(native)
    [made] = from_natives([native])
    made.id, made.name = "other", "bob"
    made.additional_kwargs = {"x": 1}
    assert native == before
