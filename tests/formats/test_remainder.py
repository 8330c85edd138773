"""Whatever a converter forgets, the original comes back to the byte."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerstone.codec import decode_json, encode_json
from ledgerstone.formats.remainder import remainder, restored

keys = st.sampled_from(["a", "b", "type", "role", "0", "~", "", "v", "d"])
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e300]),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)


def stored(value: Any) -> Any:
    """As the store gives it back."""
    return decode_json(encode_json(value, "value"))


@settings(max_examples=600, deadline=None)
@given(wanted=values, rebuilt=values)
def test_any_pair(wanted: Any, rebuilt: Any) -> None:
    edit = remainder(wanted, rebuilt)
    before = json.dumps(rebuilt)
    found = restored(rebuilt, stored(edit))
    assert json.dumps(found) == json.dumps(wanted)
    assert json.dumps(rebuilt) == before
    assert (edit is None) == (json.dumps(wanted) == json.dumps(rebuilt))


def test_a_small_difference_is_a_small_edit() -> None:
    wanted = {"role": "user", "content": "x" * 1000, "id": "m1"}
    edit = remainder(wanted, {"role": "user", "content": "x" * 1000})
    assert edit == ["d", {"id": ["v", "m1"]}, [], None]
