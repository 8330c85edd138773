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
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NoReturn, TypeAlias
from zlib import crc32

Edit: TypeAlias = Any
Texts: TypeAlias = Callable[[], Mapping[str, str]]
"""Texts that may be pointed at, by their sum; asked for when they are needed."""

TEXT_CHARS_MIN = 64
"""Shorter texts, ids among them, are not worth looking for."""

_SAME = object()
_SPELLINGS: tuple[dict[str, Any], ...] = (
    {"separators": (",", ":"), "ensure_ascii": False},
    {"separators": (", ", ": "), "ensure_ascii": False},
    {"separators": (",", ":")},
    {"separators": (", ", ": ")},
    {"indent": 2, "ensure_ascii": False},
)


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
        if type(wanted) is not type(rebuilt):
            return self._whole(wanted)
        if isinstance(wanted, dict):
            return self._of_dict(wanted, rebuilt)
        if isinstance(wanted, list):
            return self._of_list(wanted, rebuilt)
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
            if value is other or (type(value) is str and value == other):
                continue
            edit = self._whole(value) if other is _SAME else self.edit(value, other)
            if edit is not _SAME:
                edits[key] = edit
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

    def _of_list(self, wanted: list[Any], rebuilt: list[Any]) -> Any:
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
        value, other = _parsed(wanted), _parsed(rebuilt)
        if value is not None and type(value) is type(other):
            for n, spelling in enumerate(_SPELLINGS):
                if json.dumps(value, **spelling) == wanted:
                    edit = self.edit(value, other)
                    found = ["t", n] if edit is _SAME else ["t", n, edit]
                    return found if _size(found) < len(wanted) else self._whole(wanted)
        return self._whole(wanted)

    def _whole(self, value: Any) -> Edit:
        """A value of which nothing was rebuilt, without the texts that stand elsewhere."""
        if isinstance(value, str):
            return self._pointed(value)
        if not isinstance(value, dict | list | tuple):
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
    if isinstance(edit, dict):
        return _edited(rebuilt, edit, (), texts)
    if not isinstance(edit, list):
        return edit
    word, *rest = edit
    match word:
        case "v" | "j":
            return rest[0] if word == "v" else json.loads(rest[0])
        case "m":
            return [_restored(None, one, texts) for one in rest[0]]
        case "s":
            return "".join((*rest[1:], texts()[rest[0]]))
        case "t":
            value = json.loads(rebuilt)
            value = _restored(value, rest[1], texts) if len(rest) > 1 else value
            return json.dumps(value, **_SPELLINGS[rest[0]])
        case "d":
            edits, dropped, order = [*rest, (), None][:3] if len(rest) == 1 else [*rest, None][:3]
            base = rebuilt if isinstance(rebuilt, dict) else {}
            made = _edited(base, edits, dropped, texts)
            if order is None:
                return made
            natural = _natural(base, made)
            return {natural[place]: made[natural[place]] for place in order}
    raise ValueError(f"{word!r:.20} is no edit")


def _edited(rebuilt: Any, edits: dict[str, Edit], dropped: Iterable[str], texts: Texts) -> Any:
    if isinstance(rebuilt, list):
        found = list(rebuilt)
        for place, inner in edits.items():
            found[int(place)] = _restored(found[int(place)], inner, texts)
        return found
    base = rebuilt if isinstance(rebuilt, dict) else {}
    made = {key: value for key, value in base.items() if key not in dropped}
    for key, inner in sorted(edits.items()):
        made[key] = _restored(made.get(key), inner, texts)
    return made


def _natural(rebuilt: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """The order of keys that needs no word: those that were rebuilt, then the others by name."""
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
