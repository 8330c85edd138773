"""Filters. Of memories and embeddings: parsed where they come in, judged in Python everywhere.

    {"kind": "note", "place.city": {"$in": ["Oslo", "Bergen"]}, "stars": {"$gte": 3, "$lt": 5}}

All conditions must hold. A path leads through objects only. Where it leads nowhere, `$ne`, `$nin`
and `{"$exists": false}` hold and nothing else does. Numbers are compared as numbers (1 is 1.0),
true is not 1, and a range of anything but two numbers or two texts does not hold.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from ledgerstone.codec import check_json, decode_json, encode_json
from ledgerstone.errors import InvalidValue

Condition: TypeAlias = tuple[tuple[str, ...], str, Any]

CONDITIONS_MAX = 32
SEGMENTS_MAX = 8
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}\Z")
_FIELD = "filter"
_ABSENT: Any = object()


def parse_filter(given: object) -> tuple[Condition, ...]:
    """The conditions of a filter, or InvalidValue; None and {} have none."""
    if given is None:
        return ()
    if not isinstance(given, dict):
        raise InvalidValue(_FIELD, f"an object expected, got {type(given).__name__}")
    if len(given) > CONDITIONS_MAX:
        raise _too_many(len(given))
    found = [one for path, asked in given.items() for one in _conditions(path, asked)]
    if len(found) > CONDITIONS_MAX:
        raise _too_many(len(found))
    return tuple(found)


def encode_filter(conditions: tuple[Condition, ...]) -> bytes | None:
    """As a command carries it."""
    return encode_json(conditions, _FIELD) if conditions else None


def decode_filter(data: bytes | None) -> tuple[Condition, ...]:
    """What `encode_filter` made."""
    if data is None:
        return ()
    return tuple((tuple(path), name, asked) for path, name, asked in decode_json(data))


def matches(conditions: tuple[Condition, ...], value: Any) -> bool:
    """Whether all of them hold for a value."""
    return all(_OPERATORS[name](_reach(value, path), asked) for path, name, asked in conditions)


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values."""
    if type(one) is str and type(other) is str:
        return one == other
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same(item, other[key]) for key, item in one.items())
        )
    if isinstance(one, list | tuple):
        return (
            isinstance(other, list | tuple)
            and len(one) == len(other)
            and all(map(same, one, other))
        )
    return bool(one == other)


def _conditions(path: object, asked: object) -> Iterator[Condition]:
    segments = _path(path)
    check_json(asked, _FIELD)
    if not isinstance(asked, dict) or not any(key.startswith("$") for key in asked):
        yield segments, "$eq", asked
        return
    for name, operand in asked.items():
        if name not in _OPERATORS:
            raise InvalidValue(
                _FIELD, f"operators are {', '.join(_OPERATORS)}, and not mixed with keys"
            )
        if name in ("$in", "$nin") and not isinstance(operand, list | tuple):
            raise InvalidValue(_FIELD, f"{name} needs a list, got {type(operand).__name__}")
        if name == "$exists" and not isinstance(operand, bool):
            raise InvalidValue(_FIELD, f"$exists is True or False, got {operand!r:.40}")
        yield segments, name, operand


def _path(path: object) -> tuple[str, ...]:
    if not isinstance(path, str):
        raise InvalidValue(_FIELD, f"paths are texts, got {type(path).__name__}")
    segments = tuple(path.split("."))
    if len(segments) > SEGMENTS_MAX or not all(map(_NAME.match, segments)):
        raise InvalidValue(
            _FIELD,
            f"a path is up to {SEGMENTS_MAX} names of letters, digits and _ with dots between,"
            f" got {path!r:.70}",
        )
    return segments


def _too_many(count: int) -> InvalidValue:
    return InvalidValue(_FIELD, f"{count} conditions, at most {CONDITIONS_MAX} allowed")


def _reach(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return _ABSENT
        value = value[name]
    return value


def _equal(found: Any, asked: Any) -> bool:
    return found is not _ABSENT and same(found, asked)


def _among(found: Any, asked: Any) -> bool:
    return any(_equal(found, one) for one in asked)


def _compared(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(found: Any, asked: Any) -> bool:
        sort = _sort(found)
        return sort is not None and sort == _sort(asked) and holds(found, asked)

    return compare


def _sort(value: Any) -> str | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else None


RANGES: dict[str, Callable[[Any, Any], bool]] = {
    "$gt": _compared(operator.gt),
    "$gte": _compared(operator.ge),
    "$lt": _compared(operator.lt),
    "$lte": _compared(operator.le),
}
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": _equal,
    "$ne": lambda found, asked: not _equal(found, asked),
    **RANGES,
    "$in": _among,
    "$nin": lambda found, asked: not _among(found, asked),
    "$exists": lambda found, asked: (found is not _ABSENT) is asked,
}


def check_filter(value: object, field: str) -> dict[str, Any] | None:
    """A subset filter, or InvalidValue: keys come from a closed grammar."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidValue(field, f"an object expected, got {type(value).__name__}")
    for key in value:
        if not isinstance(key, str) or not _NAME.match(key):
            raise InvalidValue(field, f"filter keys are letters, digits and _, got {key!r:.70}")
    check_json(value, field)
    return value


def contains(whole: Any, part: Any) -> bool:
    """Whether `part` is a subset of `whole`: objects by key, everything else by equality."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], item) for key, item in part.items()
        )
    # True == 1 in Python but not in JSON, so compare what would be stored.
    return encode_json(whole, "value") == encode_json(part, "value")
