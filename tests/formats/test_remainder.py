"""Whatever a converter forgets, the original comes back to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerstone.codec import decode_json, encode_json
from ledgerstone.formats.remainder import remainder, restored, texts_of

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


long_texts = ["a text that is long enough " * 3, "another one, as long as it " * 3, "x" * 90]
json_texts = st.builds(
    lambda value, spaced, escaped: json.dumps(
        value, separators=(", ", ": ") if spaced else (",", ":"), ensure_ascii=escaped
    ),
    values,
    st.booleans(),
    st.booleans(),
)
with_texts = st.recursive(
    st.one_of(
        st.integers(0, 2),
        st.sampled_from(long_texts),
        st.sampled_from(long_texts).map(lambda text: "data:image/png;base64," + text),
        json_texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=8,
)


@settings(max_examples=600, deadline=None)
@given(wanted=values, rebuilt=values)
def test_any_pair(wanted: Any, rebuilt: Any) -> None:
    edit = remainder(wanted, rebuilt)
    before = json.dumps(rebuilt)
    found = restored(rebuilt, stored(edit))
    assert json.dumps(found) == json.dumps(wanted)
    assert json.dumps(rebuilt) == before
    assert (edit is None) == (json.dumps(wanted) == json.dumps(rebuilt))


@settings(max_examples=600, deadline=None)
@given(wanted=with_texts, rebuilt=with_texts)
def test_any_pair_with_texts(wanted: Any, rebuilt: Any) -> None:
    texts = lambda: texts_of(long_texts)  # noqa: E731
    edit = remainder(wanted, rebuilt, texts)
    assert json.dumps(restored(rebuilt, stored(edit), texts)) == json.dumps(wanted)
    inside = str(json_in(wanted))
    assert not any(text in json.dumps(edit) for text in long_texts if text not in inside)


def json_in(value: Any) -> list[str]:
    """Texts inside JSON texts stay there."""
    if isinstance(value, str):
        return [value] if value[:1] in '{["' else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for one in inner for text in json_in(one)]


def test_a_small_difference_is_a_small_edit() -> None:
    wanted = {"role": "user", "content": "x" * 1000, "id": "m1"}
    assert remainder(wanted, {"role": "user", "content": "x" * 1000}) == {"id": "m1"}


def test_a_text_of_the_parts_is_pointed_at() -> None:
    text = "y" * 500
    wanted = {"other": [{"words": text}], "url": "data:image/png;base64," + text}
    edit = remainder(wanted, {}, lambda: texts_of([text]))
    assert len(json.dumps(edit)) < 120
    assert restored({}, edit, lambda: texts_of([text])) == wanted


def test_json_in_another_spelling_is_not_kept_again() -> None:
    value = {"zone": "Oslo", "at": "2026-05-01", "people": [1, 2, 3], "name": "Åse"}
    rebuilt = json.dumps(value, sort_keys=True, separators=(",", ":"))
    for wanted in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        edit = remainder(wanted, rebuilt)
        assert len(json.dumps(edit)) < 40
        assert restored(rebuilt, stored(edit)) == wanted


def test_no_json_is_text() -> None:
    for wanted in ('{"a": NaN}', '{"a": 1, "a": 2}', '{"a": 1e999}', "{", "[1,]", '{"a":-0}'):
        edit = remainder(wanted, '{"a":0}')
        assert restored('{"a":0}', stored(edit)) == wanted


def test_an_edit_of_something_else_is_refused() -> None:
    edit = remainder([{"a": "z"}, {"b": 1}], [{"a": 1}, {"b": 2}])
    with pytest.raises(IndexError):
        restored([], edit)
    with pytest.raises(KeyError):
        restored({}, ["s", "abc"])
    with pytest.raises(ValueError, match="no edit"):
        restored({}, ["?"])
