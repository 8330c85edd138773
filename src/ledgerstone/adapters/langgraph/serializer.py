"""Values that only LangGraph's serializer can say: its bytes, opened under a strict allow-list."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.event_hooks import SerdeEvent, register_serde_event_listener
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ledgerstone.errors import Corrupt, InvalidValue, LedgerstoneError, NotSupported

PICKLE = "pickle"
REFUSED = ("msgpack_blocked", "msgpack_method_blocked")

_refused: ContextVar[list[str] | None] = ContextVar("refused", default=None)


def _listen(event: SerdeEvent) -> None:
    found = _refused.get()
    if found is not None and event["kind"] in REFUSED:
        found.append(f"{event['module']}.{event['name']}")


# The serializer says through this hook, and only through it, that it refused a class.
register_serde_event_listener(_listen)


def strict_serde(allow: Iterable[type | tuple[str, ...]] = ()) -> JsonPlusSerializer:
    """LangGraph's serializer, reviving its own safe types and the ones that are named here."""
    return JsonPlusSerializer(allowed_msgpack_modules=tuple(allow) or None)


class CheckedSerializer:
    """LangGraph's serializer; what could not be read again is refused when it is written."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde
        self.is_open = isinstance(serde, JsonPlusSerializer)
        """Whether contents may be stored readable: not when the serializer encrypts."""

    def dump(self, value: Any, path: str) -> tuple[str, bytes, Any]:
        """Kind and bytes of a value, and what a read makes of them; InvalidValue, NotSupported."""
        try:
            kind, data = self.serde.dumps_typed(value)
        except (TypeError, ValueError) as error:
            raise InvalidValue(path, f"{type(value).__name__} cannot be stored: {error}") from None
        if kind == PICKLE:
            raise NotSupported(f"pickle of {type(value).__name__} at {path}")
        return kind, bytes(data), self.load(kind, bytes(data), path)

    def load(self, kind: str, data: bytes, path: str) -> Any:
        """The value again; NotSupported for a class that is not allowed, or for pickle."""
        if kind == PICKLE:
            raise NotSupported(f"opening pickle at {path}")
        found: list[str] = []
        token = _refused.set(found)
        try:
            value = self.serde.loads_typed((kind, data))
        except RuntimeError as error:  # Of a kind that the serializer does not know.
            raise Corrupt("nodes", path, "value", str(error)) from None
        finally:
            _refused.reset(token)
        if found:
            raise NotSupported(
                f"reviving {', '.join(dict.fromkeys(found))} at {path}",
                hint="name the class if you trust it: LedgerSaver(store, allow=[...])",
            )
        return value

    def open(self, kind: str, stored: bytes | str, path: str) -> Any:
        """The same of what is in a store, text when it stands in JSON; Corrupt when damaged."""
        try:
            data = base64.b64decode(stored) if isinstance(stored, str) else stored
            return self.load(kind, data, path)
        except LedgerstoneError:
            raise
        except Exception as error:
            # The serializer raises whatever the damage makes it stumble over.
            reason = f"not readable: {type(error).__name__}"
            raise Corrupt("nodes", path, "value", reason) from None


def to_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
