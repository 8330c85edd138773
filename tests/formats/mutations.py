"""Values that went through careless hands: keys dropped, added, retyped, put in another order."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.5, 1 << 70, 1 << 53]),
    st.sampled_from(["", "text", "{", '{"error": 1}', "\ud800", "<think>\nx\n</think>", "é\x00"]),
    st.sampled_from([[], {}, [1], {"b": 1, "a": 2}, [{}], {"type": "text", "text": 5}]),
)
KEYS = st.sampled_from(
    ["type", "role", "content", "text", "id", "zz", "a", "kind", "parts", "data"]
)


@st.composite
def mutated(draw: Any, values: st.SearchStrategy[dict[str, Any]]) -> dict[str, Any]:
    """A value with one to four such accidents, anywhere inside."""
    value = copy.deepcopy(draw(values))
    for _ in range(draw(st.integers(1, 4))):
        places = [one for one in _containers(value) if one]
        place = places[draw(st.integers(0, len(places) - 1))] if places else value
        _accident(draw, place)
    return value


def _containers(value: Any) -> list[Any]:
    if not isinstance(value, dict | list):
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(found for one in inner for found in _containers(one))]


def _accident(draw: Any, place: Any) -> None:
    kind = draw(st.sampled_from(["drop", "add", "retype", "reorder"]))
    if isinstance(place, list):
        at = draw(st.integers(0, max(len(place) - 1, 0)))
        if kind == "drop" and place:
            del place[at]
        elif kind == "add":
            place.insert(at, copy.deepcopy(draw(ODD)))
        elif kind == "retype" and place:
            place[at] = copy.deepcopy(draw(ODD))
        else:
            place.reverse()
        return
    keys = list(place)
    if kind == "add" or not keys:
        place[draw(KEYS)] = copy.deepcopy(draw(ODD))
        return
    key = draw(st.sampled_from(keys))
    if kind == "drop":
        del place[key]
    elif kind == "retype":
        place[key] = copy.deepcopy(draw(ODD))
    else:
        order = draw(st.permutations(keys))
        items = {one: place.pop(one) for one in order}
        place.update(items)
