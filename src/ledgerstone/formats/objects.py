"""Natives as the objects of their libraries, and back. A library is imported when it is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from math import isfinite
from typing import Any

from ledgerstone.errors import InvalidValue
from ledgerstone.formats.natives import Native

_NEEDED = {
    "langchain": ("langchain_core.messages", "langchain-core", "langgraph"),
    "pydantic-ai": ("pydantic_ai.messages", "pydantic-ai-slim", "pydantic-ai"),
    "adk": ("google.adk.events", "google-adk", "adk"),
}
_REFUSALS = (ValueError, TypeError, LookupError, AttributeError)
_LEAVES = (str, bytes, int, type(None))
_LISTS = (list, tuple, set, frozenset)
REASON_CHARS_MAX = 200


def has_objects(format: str) -> bool:
    """Whether a format's messages are objects of a library; the others are plain JSON."""
    return format in _NEEDED


def to_objects(format: str, natives: Sequence[Native]) -> list[Any]:
    """The natives as objects. ImportError when the library is not there, InvalidValue that names
    the place of a native that it does not take, as one of another version of it."""
    if not natives or not has_objects(format):
        return list(natives)
    library = _library(format)
    try:
        return _objects(format, library, natives)
    except _REFUSALS:
        for n, native in enumerate(natives):
            try:
                _objects(format, library, [native])
            except _REFUSALS as error:
                reason = f"{_NEEDED[format][1]} does not take it: {_reason(error)}"
                raise InvalidValue(f"{format}[{n}]", reason) from None
        raise


def _objects(format: str, library: Any, natives: Sequence[Native]) -> list[Any]:
    if format == "langchain":
        return list(library.messages_from_dict(list(natives)))
    if format == "pydantic-ai":
        return list(library.ModelMessagesTypeAdapter.validate_json(_json(list(natives))))
    return [library.Event.model_validate_json(_json(native)) for native in natives]


def _reason(error: Exception) -> str:
    """Why, without the value: that is somebody's conversation."""
    details = getattr(error, "errors", None)
    if details is None:
        return f"{error}"[:REASON_CHARS_MAX]
    first = details(include_input=False, include_context=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"[:REASON_CHARS_MAX]


def _json(value: Any) -> bytes:
    """As JSON, since only there bytes are text; lone surrogates, which are refused, as "?"."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def from_objects(format: str, objects: Iterable[Any]) -> list[Any]:
    """Objects as natives; natives among them stay. InvalidValue for anything else."""
    given = list(objects)
    if not has_objects(format) or all(isinstance(one, dict) for one in given):
        return given
    library = _library(format)
    classes = {
        "langchain": ("BaseMessage",),
        "pydantic-ai": ("ModelRequest", "ModelResponse"),
        "adk": ("Event",),
    }[format]
    known = tuple(getattr(library, name) for name in classes)
    found = []
    for n, one in enumerate(given):
        if not isinstance(one, (*known, dict)):
            wanted = " or ".join(classes)
            raise InvalidValue(f"{format}[{n}]", f"a {wanted} expected, got {type(one).__name__}")
        found.append(one if isinstance(one, dict) else _native(format, library, one, n))
    return found


def _native(format: str, library: Any, one: Any, n: int) -> Any:
    if format == "langchain":
        return library.message_to_dict(one)
    try:
        if format == "pydantic-ai":
            found = library.ModelMessagesTypeAdapter.dump_python([one], mode="json")[0]
        else:
            found = one.model_dump(mode="json", by_alias=True, exclude_none=True)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidValue(f"{format}[{n}]", f"{error}"[:REASON_CHARS_MAX]) from None
    check_finite(one, f"{format}[{n}]")
    return found


def check_finite(value: Any, field: str) -> None:
    """InvalidValue naming the place of a NaN or an Infinity in an object of pydantic's, which is
    written as null without a word. Only for what could be written: that has no cycles."""
    place = _not_finite(value)
    if place is not None:
        raise InvalidValue(field + place, "a number that is not finite is not JSON")


def _not_finite(value: Any) -> str | None:
    if isinstance(value, float):
        return None if isfinite(value) else ""
    if isinstance(value, _LISTS):
        inner: Iterable[tuple[Any, Any]] = enumerate(value)
        shape = "[{}]"
    else:
        known = hasattr(value, "__pydantic_fields__") or hasattr(value, "__dataclass_fields__")
        inner = (vars(value) if known else value if isinstance(value, Mapping) else {}).items()
        shape = ".{}"
    for key, one in inner:
        place = None if isinstance(one, _LEAVES) else _not_finite(one)
        if place is not None:
            return shape.format(key) + place
    return None


def _library(format: str) -> Any:
    module, package, extra = _NEEDED[format]
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f'messages of {format} need {package}: pip install "ledgerstone[{extra}]"'
        ) from error
