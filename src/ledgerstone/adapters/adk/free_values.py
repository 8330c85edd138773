"""Places where a program may put anything: what is there must have a form in JSON.

ADK's own services write the `repr` of what they cannot store, and log it. Here it is refused, by
its path, before anything is written. What pydantic turns into JSON (times, models, sets) is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from google.adk.events.event import Event
from pydantic_core import to_jsonable_python

from ledgerstone.errors import InvalidValue

_PLAIN = (bool, int, type(None))
DEPTH_MAX = 200


def check_free(value: Any, path: str, depth: int = 0) -> None:
    """InvalidValue naming the place of the first value that has no JSON form."""
    if isinstance(value, _PLAIN):
        return
    if depth > DEPTH_MAX:
        raise InvalidValue(path, f"nested deeper than {DEPTH_MAX}")
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidValue(path, f"{value} is not JSON")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(str(key), path)
            check_free(item, f"{path}.{key!s:.64}", depth + 1)
    elif isinstance(value, list | tuple | set | frozenset):
        for n, item in enumerate(value):
            check_free(item, f"{path}[{n}]", depth + 1)
    else:
        _check_rich(value, path)


def _check_text(value: str, path: str) -> None:
    """Half a character is no text; pydantic would write how Python shows it."""
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        raise InvalidValue(path, "lone surrogates are not allowed") from None


def _check_rich(value: Any, path: str) -> None:
    try:
        to_jsonable_python(value, bytes_mode="base64")
    except Exception as error:
        kind = type(value).__name__
        raise InvalidValue(path, f"a {kind} has no form in JSON") from error


def check_event(event: Event) -> None:
    """The same for every free place of an event."""
    for path, value in _free_places(event):
        if value is not None:
            check_free(value, f"event.{path}")


def _free_places(event: Event) -> Iterator[tuple[str, Any]]:
    actions = event.actions
    yield "actions.state_delta", actions.state_delta
    yield "actions.agent_state", actions.agent_state
    yield "actions.set_model_response", actions.set_model_response
    yield "output", event.output
    yield "custom_metadata", event.custom_metadata
    parts = event.content.parts if event.content and event.content.parts else []
    for n, part in enumerate(parts):
        if part.function_call is not None:
            yield f"content.parts[{n}].function_call.args", part.function_call.args
        if part.function_response is not None:
            yield f"content.parts[{n}].function_response.response", part.function_response.response
