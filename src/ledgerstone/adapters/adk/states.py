"""The three layers of ADK's state: of the app, of the user, of the session.

App and user values are memories, one each, so that two sessions which change different keys at
once lose nothing. The session's own are its state in the store, under keys that say whose they are.

ADK's own services write the `repr` of what they cannot store, and log it. Here it is refused, by
its path, before anything is written. What pydantic turns into JSON (times, models, sets) is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import msgspec
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from ledgerstone.adapters.adk.keys import ADK, app_space, user_space
from ledgerstone.codec import check_json, decode_json
from ledgerstone.errors import InvalidValue
from ledgerstone.records.memories import Memory

_PLAIN = (bool, int, type(None))
DEPTH_MAX = 200
OURS = "adk:"
"""Before each key of the session's layer: other frameworks may keep state in the same session."""


class Layers(msgspec.Struct, frozen=True):
    """Values by layer, without the prefixes of their keys."""

    app: dict[str, Any]
    user: dict[str, Any]
    session: dict[str, Any]


def layers_of(state: dict[str, Any]) -> Layers:
    """Who owns which of these JSON values; `temp:` belongs to nobody."""
    found = Layers({}, {}, {})
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            found.app[key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            found.user[key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            found.session[key] = value
    return found


def json_state(state: dict[str, Any] | None) -> dict[str, Any]:
    """A state as ADK writes it in JSON; InvalidValue names the place of what has no JSON."""
    if not isinstance(state or {}, dict):
        raise InvalidValue("state", f"an object expected, got {type(state).__name__}")
    given = lasting(state or {})
    if not given:
        return {}
    check_free(given, "state")
    # Within an event: that is what decides how bytes are written.
    event = Event(actions=EventActions(state_delta=given))
    found: dict[str, Any] = event.model_dump(mode="json")["actions"]["state_delta"]
    check_json(found, "state")
    return found


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


def lasting(state: dict[str, Any]) -> dict[str, Any]:
    """What outlives an invocation."""
    if not all(isinstance(key, str) for key in state):
        raise InvalidValue("state", "keys are texts")
    return {key: value for key, value in state.items() if not key.startswith(State.TEMP_PREFIX)}


def put(turn: Any, app_name: str, user_id: str, state: dict[str, Any]) -> None:
    """Add a change of state to a turn: all layers change with its commit, or none."""
    layers = layers_of(state)
    for key, value in layers.app.items():
        turn.remember(app_space(app_name), key, value)
    for key, value in layers.user.items():
        turn.remember(user_space(app_name, user_id), key, value)
    if layers.session:
        turn.state(**{OURS + key: _boxed(value) for key, value in layers.session.items()})


def merged(document: bytes | None, app: Iterable[Memory], user: Iterable[Memory]) -> dict[str, Any]:
    """The state that ADK sees: a session's document and the memories of both other layers."""
    stored = {} if document is None else decode_json(document)
    found = {
        key.removeprefix(OURS): _unboxed(value)
        for key, value in stored.items()
        if key.startswith(OURS)
    }
    found |= {State.APP_PREFIX + memory.key: memory.value for memory in app}
    found |= {State.USER_PREFIX + memory.key: memory.value for memory in user}
    return found


def _boxed(value: Any) -> Any:
    """None would remove the key, and ADK keeps keys that are None; boxes are boxed themselves."""
    return {ADK: value} if value is None or _is_box(value) else value


def _unboxed(value: Any) -> Any:
    return value[ADK] if _is_box(value) else value


def _is_box(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {ADK}
