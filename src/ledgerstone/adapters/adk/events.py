"""Events of ADK as messages of a session, and messages of any origin as events."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from google.adk.events.event import Event
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from ledgerstone import formats, ids
from ledgerstone.adapters.adk.free_values import check_event
from ledgerstone.adapters.adk.keys import ADK
from ledgerstone.adapters.adk.states import lasting
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.records.messages import Message

US_PER_S = 1_000_000


def native_of(event: Event) -> dict[str, Any]:
    """The event as JSON, without what is temporary; InvalidValue names what has no JSON form."""
    delta = event.actions.state_delta
    kept = lasting(delta)
    if len(kept) != len(delta):
        actions = event.actions.model_copy(update={"state_delta": kept})
        event = event.model_copy(update={"actions": actions})
    check_event(event)
    try:
        return event.model_dump(mode="json", by_alias=True, exclude_none=True)
    except PydanticSerializationError as error:
        raise InvalidValue("event", str(error)) from None


def message_of(native: dict[str, Any], **envelope: Any) -> Message:
    """The message that gives this very event back; it has the event's id."""
    return formats.keep(ADK, native, id=ids.check_id(native.get("id"), "event.id"), **envelope)


def delta_of(native: dict[str, Any]) -> dict[str, Any]:
    """What an event changes in the state, in JSON."""
    found: dict[str, Any] = native.get("actions", {}).get("stateDelta", {})
    return found


def events_of(messages: Iterable[Message]) -> list[Event]:
    """The conversation as ADK sees it: its own events exactly, the others from their parts."""
    found: list[Event] = []
    for own, group in groupby(messages, lambda one: formats.origin(one) == ADK):
        run = list(group)
        natives = formats.native(ADK, run)
        if own:
            pairs = zip(natives, run, strict=True)
            found += [_event(native, message) for native, message in pairs]
            continue
        for n, native in enumerate(natives):
            near = run[min(n, len(run) - 1)]
            found.append(_event(_completed(native, near, n), near))
    return found


def _completed(native: dict[str, Any], near: Message, n: int) -> dict[str, Any]:
    """What ADK would otherwise make up anew each time: an id, a time, an invocation."""
    known = {
        "id": ids.derive(ADK, near.id, str(n)),
        "timestamp": near.created_us / US_PER_S,
        "invocationId": near.run_id or near.id,
        "author": "user" if near.role == "user" else "model",
    }
    return {**native, **{key: value for key, value in known.items() if not native.get(key)}}


def _event(native: dict[str, Any], message: Message) -> Event:
    try:
        return Event.model_validate(native)
    except ValidationError as error:
        where = ".".join(str(one) for one in error.errors()[0]["loc"])
        raise Corrupt("nodes", message.id, "body", f"no event of ADK at {where}") from None
