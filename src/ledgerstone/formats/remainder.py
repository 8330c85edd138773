"""What rebuilding a value left out, as a small edit: with it the rebuilt value is the original.

Canonical parts say what a message means, in our words; the words of another format are rebuilt from
them. Whatever the rebuilt form misses, adds, orders or spells differently is kept as an edit, so
that nothing depends on a converter being perfect. Stored objects have sorted keys, hence an edit
says the order of keys where it is another one. Texts that stand in the parts are pointed at, never
kept a second time.

An edit is a plain value that stands for itself, an object with edits by key (or by index, of a
list), or a list that begins with a word:

    ["v", value]                      another value
    ["j", text]                       another value, whose keys are not sorted, as JSON
    ["d", edits, dropped, order]      edits by key, keys that go, places of the keys
    ["m", [edit, ...]]                a list that is made anew
    ["s", sum, before]                a text of the parts, by its CRC-32, after a prefix
    ["t", spelling, edit]             text that is JSON, written in another spelling
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn, TypeAlias
from zlib import crc32

Edit: TypeAlias = Any
Texts: TypeAlias = Callable[[], Mapping[str, str]]
"""Texts that may be pointed at, by their sum; asked for when they are needed."""

TEXT_CHARS_MIN = 64
"""Shorter texts, ids among them, are not worth looking for."""

_SAME = object()
_LISTS = (list, tuple)
_NESTED = (dict, list, tuple)
_PLAIN = frozenset((str, int, bool, type(None)))
"""Of these, equal values are the same one; of floats they may not be."""
_WRITERS = tuple(
    json.JSONEncoder(**spelling).encode
    for spelling in (
        {"separators": (",", ":"), "ensure_ascii": False},
        {"separators": (", ", ": "), "ensure_ascii": False},
        {"separators": (",", ":")},
        {"separators": (", ", ": ")},
        {"indent": 2, "ensure_ascii": False},
    )
)
"""Spellings of JSON, named by their number in stored edits: only ever add to the end."""


def remainder(wanted: Any, rebuilt: Any, texts: Texts = dict) -> Edit | None:
    """The edit that makes `wanted` of `rebuilt`; None when there is nothing to do."""
    edit = _Comparison(texts).edit(wanted, rebuilt)
    if edit is _SAME:
        return None
    return ["v", edit] if edit is None else edit


def restored(rebuilt: Any, edit: Edit | None, texts: Texts = dict) -> Any:
    """The original: `rebuilt` with the edit applied. Nothing given is changed.

    KeyError, IndexError, TypeError or ValueError when the edit is not for this value.
    """
    return rebuilt if edit is None else _restored(rebuilt, edit, texts)


def whole(value: Any) -> Edit:
    """The edit that makes this value of anything."""
    return ["j", json.dumps(value, separators=(",", ":"))]


def texts_of(value: Any) -> dict[str, str]:
    """The texts inside a value that are worth pointing at, by their sum."""
    found: dict[str, str] = {}
    twice = set()
    for text in _leaves(value):
        sum_ = _sum(text)
        if found.setdefault(sum_, text) != text:
            twice.add(sum_)
    return {sum_: text for sum_, text in found.items() if sum_ not in twice}


def _leaves(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        if len(value) >= TEXT_CHARS_MIN:
            yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _leaves(one)


def _sum(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'surrogatepass')):x}"


class _Comparison:
    """Finds edits; texts may point at what stands in `texts`."""

    def __init__(self, texts: Texts) -> None:
        self._ask = texts

    @cached_property
    def _texts(self) -> Mapping[str, str]:
        return self._ask()

    def edit(self, wanted: Any, rebuilt: Any) -> Any:
        # Objects and lists of any class are written alike; numbers and texts only of the same one.
        if isinstance(wanted, dict) and isinstance(rebuilt, dict):
            return self._of_dict(wanted, rebuilt)
        if isinstance(wanted, _LISTS) and isinstance(rebuilt, list):
            return self._of_list(wanted, rebuilt)
        if type(wanted) is not type(rebuilt):
            return self._whole(wanted)
        # -0.0 equals 0.0, and only their texts differ.
        if wanted == rebuilt and (type(wanted) is not float or repr(wanted) == repr(rebuilt)):
            return _SAME
        if isinstance(wanted, str):
            return self._of_text(wanted, rebuilt)
        return self._whole(wanted)

    def _of_dict(self, wanted: dict[str, Any], rebuilt: dict[str, Any]) -> Any:
        edits: dict[str, Edit] = {}
        for key, value in wanted.items():
            other = rebuilt.get(key, _SAME)
            kind = type(value)
            if kind is type(other) and (value == other if kind in _PLAIN else value is other):
                continue
            edit = self._whole(value) if other is _SAME else self.edit(value, other)
            if edit is not _SAME:
                edits[key] = edit
        if len(edits) > 1:
            edits = dict(sorted(edits.items()))
        if list(wanted) == list(rebuilt):
            return edits or _SAME
        dropped = [key for key in rebuilt if key not in wanted]
        natural = _natural(rebuilt, wanted)
        if natural != list(wanted):
            places = {key: n for n, key in enumerate(natural)}
            return ["d", edits, dropped, [places[key] for key in wanted]]
        if dropped:
            return ["d", edits, dropped]
        return edits or _SAME

    def _of_list(self, wanted: Sequence[Any], rebuilt: list[Any]) -> Any:
        if len(wanted) != len(rebuilt):
            return self._whole(wanted)
        edits = {
            str(n): edit
            for n, (one, other) in enumerate(zip(wanted, rebuilt, strict=True))
            if (edit := self.edit(one, other)) is not _SAME
        }
        return edits or _SAME

    def _of_text(self, wanted: str, rebuilt: str) -> Any:
        """Another text; one that says the same JSON is kept by its spelling."""
        try:
            return self._spelled(wanted, rebuilt) or self._whole(wanted)
        except RecursionError:  # A text may nest deeper than a value is allowed to.
            return self._whole(wanted)

    def _spelled(self, wanted: str, rebuilt: str) -> Edit | None:
        value, other = _parsed(wanted), _parsed(rebuilt)
        if value is None or type(value) is not type(other):
            return None
        for n, written in enumerate(_WRITERS):
            if written(value) == wanted:
                edit = self.edit(value, other)
                found = ["t", n] if edit is _SAME else ["t", n, edit]
                return found if _size(found) < len(wanted) else None
        return None

    def _whole(self, value: Any) -> Edit:
        """The edit for a value of which nothing was rebuilt; texts of the parts are pointed at."""
        if isinstance(value, str):
            return self._pointed(value)
        if not isinstance(value, _NESTED):
            return value
        if any(self._pointed(text) is not text for text in _leaves(value)):
            if isinstance(value, dict):
                made = self._of_dict(value, {})
                return made if isinstance(made, list) else ["d", made]
            return ["m", [self._whole(one) for one in value]]
        return ["v", value] if _is_sorted(value) else whole(value)

    def _pointed(self, text: str) -> Edit:
        if len(text) < TEXT_CHARS_MIN or not self._texts:
            return text
        sum_ = _sum(text)
        if self._texts.get(sum_) == text:
            return ["s", sum_]
        head, comma, rest = text.partition(",")
        if head.startswith("data:") and len(rest) >= TEXT_CHARS_MIN:
            sum_ = _sum(rest)
            if self._texts.get(sum_) == rest:
                return ["s", sum_, head + comma]
        return text


def _restored(rebuilt: Any, edit: Edit, texts: Texts) -> Any:
    """What is not edited is shared with `rebuilt`; objects on the way to an edit are copied."""
    kind = type(edit)
    if kind is dict:
        return _edited(rebuilt, edit, texts)
    if kind is not list:
        return edit
    word = edit[0]
    if word == "d":
        return _reordered(rebuilt, edit, texts)
    if word == "t":
        value = json.loads(rebuilt)
        value = _restored(value, edit[2], texts) if len(edit) > 2 else value
        return _WRITERS[edit[1]](value)
    if word == "v":
        return edit[1]
    if word == "j":
        return json.loads(edit[1])
    if word == "m":
        return [_restored(None, one, texts) for one in edit[1]]
    if word == "s":
        return "".join((*edit[2:], texts()[edit[1]]))
    raise ValueError(f"{word!r:.20} is no edit")


def _edited(rebuilt: Any, edits: dict[str, Edit], texts: Texts) -> Any:
    """Keys that are new come last, in the order of the edits, which is that of their names."""
    if isinstance(rebuilt, list):
        found = list(rebuilt)
        for place, inner in edits.items():
            at = int(place)
            found[at] = _restored(found[at], inner, texts)
        return found
    made = dict(rebuilt) if isinstance(rebuilt, dict) else {}
    for key, inner in edits.items():
        kind = type(inner)
        plain = kind is not dict and kind is not list
        made[key] = inner if plain else _restored(made.get(key), inner, texts)
    return made


def _reordered(rebuilt: Any, edit: list[Any], texts: Texts) -> Any:
    made = _edited(rebuilt if isinstance(rebuilt, dict) else {}, edit[1], texts)
    if len(edit) > 2:
        for key in edit[2]:
            made.pop(key, None)
    if len(edit) < 4:
        return made
    names = list(made)
    return {(name := names[place]): made[name] for place in edit[3]}


def _natural(rebuilt: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """The order of keys that an edit need not state: rebuilt ones, then the others by name."""
    return [key for key in rebuilt if key in wanted] + sorted(
        key for key in wanted if key not in rebuilt
    )


def _parsed(text: str) -> Any:
    """The object or list that a text is, or None."""
    if text[:1] not in ("{", "["):
        return None
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":")))


def _is_sorted(value: Any) -> bool:
    """Whether storing the value keeps the order of its keys."""
    if isinstance(value, dict):
        return list(value) == sorted(value) and all(map(_is_sorted, value.values()))
    return not isinstance(value, list | tuple) or all(map(_is_sorted, value))
