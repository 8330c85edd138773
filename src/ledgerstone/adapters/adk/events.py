"""Events of ADK as messages of a session, and messages of any origin as events."""

from __future__ import annotations

from collections.abc import Iterable
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


def events_of(messages: Iterable[Message]) -> list[Event]:
    """The conversation as ADK sees it: its own events exactly, the others from their parts."""
    given = list(messages)
    own = {one.id for one in given if formats.origin(one) == ADK}
    return [_event(native, own) for native in formats.native(ADK, given)]


def times_of(messages: Iterable[Message]) -> list[float]:
    """When those events were, in seconds."""
    return [float(native.get("timestamp", 0.0)) for native in formats.native(ADK, messages)]


def _event(native: dict[str, Any], own: set[str]) -> Event:
    id = native.get("id", "")
    if not native.get("invocationId") and id not in own:
        # ADK counts and rewinds by invocations: what others said is one by itself.
        native = {**native, "invocationId": id}
    try:
        return Event.model_validate(native)
    except ValidationError as error:
        where = ".".join(str(one) for one in error.errors()[0]["loc"])
        raise Corrupt("nodes", id, "body", f"no event of ADK at {where}") from None
