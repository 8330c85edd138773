"""Events of ADK as messages of a session, and messages of any origin as events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from google.adk.events.event import Event
from google.genai import types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from ledgerstone import formats, ids
from ledgerstone.adapters.adk.keys import ADK
from ledgerstone.adapters.adk.states import check_free, lasting
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.records.messages import Message

US_PER_S = 1_000_000
_TEXT = types.Part(text="")


def native_of(event: Event) -> dict[str, Any]:
    """The event as JSON, without what is temporary; InvalidValue names what has no JSON form."""
    delta = event.actions.state_delta
    kept = lasting(delta)
    if len(kept) != len(delta):
        actions = event.actions.model_copy(update={"state_delta": kept})
        event = event.model_copy(update={"actions": actions})
    _check_event(event)
    try:
        return event.model_dump(mode="json", by_alias=True, exclude_none=True)
    except PydanticSerializationError as error:
        raise InvalidValue("event", str(error)) from None


def message_of(native: dict[str, Any], **envelope: Any) -> Message:
    """The message that gives this very event back; it has the event's id."""
    return formats.keep(ADK, native, id=ids.check_id(native.get("id"), "event.id"), **envelope)


def natives_of(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The conversation as ADK words it: its own events exactly, the others from their parts."""
    given = list(messages)
    found = formats.native(ADK, given)
    if all(native.get("invocationId") for native in found):
        return found
    # ADK counts and rewinds by invocations: what others said is one by itself.
    own = {one.id for one in given if formats.origin(one) == ADK}
    return [
        native
        if native.get("invocationId") or native.get("id") in own
        else {**native, "invocationId": native.get("id", "")}
        for native in found
    ]


def events_of(natives: Iterable[dict[str, Any]]) -> list[Event]:
    """Events again. Corrupt names one that is none."""
    return [_event(native) for native in natives]


def time_of(native: dict[str, Any]) -> float:
    """When an event was, in seconds; one that does not say is as new as can be."""
    at = native.get("timestamp")
    return at if isinstance(at, int | float) else math.inf


def _check_event(event: Event) -> None:
    """InvalidValue naming the first value that has no JSON form, wherever a program may put any."""
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


def _event(native: dict[str, Any]) -> Event:
    content = native.get("content")
    if type(content) is dict and type(content.get("parts")) is list:
        parts = [_part(part) for part in content["parts"]]
        native = {**native, "content": {**content, "parts": parts}}
    try:
        return Event.model_validate(native)
    except ValidationError as error:
        where = ".".join(str(one) for one in error.errors()[0]["loc"])
        raise Corrupt(
            "nodes", native.get("id", ""), "body", f"no event of ADK at {where}"
        ) from None


def _part(native: Any) -> Any:
    """A text, which most parts are, made as a copy: validating it takes five times as long."""
    if type(native) is dict and len(native) == 1 and type(native.get("text")) is str:
        return _TEXT.model_copy(update=native)
    return native
