"""Natives as the objects of their libraries, and back. A library is imported when it is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from ledgerstone.errors import InvalidValue
from ledgerstone.formats.keeping import Native

_NEEDED = {
    "langchain": ("langchain_core.messages", "langchain-core", "langgraph"),
    "pydantic-ai": ("pydantic_ai.messages", "pydantic-ai-slim", "pydantic-ai"),
    "adk": ("google.adk.events", "google-adk", "adk"),
}


def has_objects(format: str) -> bool:
    """Whether a format's messages are objects of a library; the others are plain JSON."""
    return format in _NEEDED


def to_objects(format: str, natives: Sequence[Native]) -> list[Any]:
    """The natives as objects; ImportError when the library is not there."""
    if not natives or not has_objects(format):
        return list(natives)
    library = _library(format)
    if format == "langchain":
        return list(library.messages_from_dict(list(natives)))
    if format == "pydantic-ai":
        return list(library.ModelMessagesTypeAdapter.validate_json(_json(list(natives))))
    return [library.Event.model_validate_json(_json(native)) for native in natives]


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
    for n, one in enumerate(given):
        if not isinstance(one, (*known, dict)):
            wanted = " or ".join(classes)
            raise InvalidValue(f"{format}[{n}]", f"a {wanted} expected, got {type(one).__name__}")
    return [one if isinstance(one, dict) else _native(format, library, one) for one in given]


def _native(format: str, library: Any, one: Any) -> Any:
    if format == "langchain":
        return library.message_to_dict(one)
    if format == "pydantic-ai":
        return library.ModelMessagesTypeAdapter.dump_python([one], mode="json")[0]
    return one.model_dump(mode="json", by_alias=True, exclude_none=True)


def _library(format: str) -> Any:
    module, package, extra = _NEEDED[format]
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f'messages of {format} need {package}: pip install "ledgerstone[{extra}]"'
        ) from error
