"""Filters of LangGraph's store, judged on the stored values; a key never becomes SQL or a path.

    {"kind": "note", "stars": {"$gte": 3}, "place": {"city": "Oslo"}}

All must hold. A key is taken literally, dots and all. None matches what is null or absent, an
object matches when all it names does. Ranges hold between two numbers or two texts only; all
numbers are below infinity, and none is NaN, or above or below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ledgerstone.codec import check_json
from ledgerstone.errors import InvalidValue
from ledgerstone.rules.matching import RANGES, same

_FIELD = "filter"


def checked(given: object) -> dict[str, Any]:
    """A filter that can be judged, or InvalidValue; None has no conditions."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidValue(_FIELD, f"an object expected, got {type(given).__name__}")
    found = dict(given)
    check_json(_finite(found), _FIELD)
    for key, asked in found.items():
        _check_operators(asked, f"{_FIELD}.{key[:64]}")
    return found


def _finite(value: Any) -> Any:
    """A filter without infinity and NaN, which no item can hold but a range may name."""
    if isinstance(value, float) and not math.isfinite(value):
        return 0.0
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def matches(conditions: dict[str, Any], value: Any) -> bool:
    """Whether all conditions hold for the value of an item."""
    if not isinstance(value, dict):
        return not conditions
    return all(_holds(value.get(key), asked) for key, asked in conditions.items())


def _check_operators(asked: Any, path: str) -> None:
    if isinstance(asked, list | tuple):
        for n, one in enumerate(asked):
            _check_operators(one, f"{path}[{n}]")
    if not isinstance(asked, dict):
        return
    if not _is_operation(asked):
        for key, one in asked.items():
            _check_operators(one, f"{path}.{key[:64]}")
        return
    for name in asked:
        if name not in _OPERATORS:
            raise InvalidValue(path, f"operators are {', '.join(_OPERATORS)}, got {name!r:.40}")


def _is_operation(asked: dict[str, Any]) -> bool:
    return any(key.startswith("$") for key in asked)


def _holds(found: Any, asked: Any) -> bool:
    if isinstance(asked, dict):
        if _is_operation(asked):
            return all(_OPERATORS[name](found, operand) for name, operand in asked.items())
        return isinstance(found, dict) and all(
            _holds(found.get(key), one) for key, one in asked.items()
        )
    if isinstance(asked, list | tuple):
        return (
            isinstance(found, list) and len(found) == len(asked) and all(map(_holds, found, asked))
        )
    return same(found, asked)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": same,
    "$ne": lambda found, asked: not same(found, asked),
    **RANGES,
}
