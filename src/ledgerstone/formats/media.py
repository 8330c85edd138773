"""Bytes that a message names by blob, put where a format shows them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ledgerstone.records.messages import Message
from ledgerstone.records.parts import AnyPart, Media, ToolResult

BLOBS = "blobs"
"""The place in `extra` where an adapter that moved bytes out of a native says which parts it added:
[places in the native, media parts, how many parts at the end]."""


def blobs_of(message: Message) -> list[str]:
    """The blobs whose bytes are needed to show a message."""
    named = [part for part in message.parts if isinstance(part, Media) and part.data is None]
    return [part.blob for part in named if part.blob is not None]


def with_bytes(message: Message, found: Mapping[str, bytes | None]) -> Message:
    """The message with the bytes in it; blobs that are gone stay named."""
    texts = {ref: b64encode(data).decode() for ref, data in found.items() if data is not None}
    mark = (message.body.extra or {}).get(BLOBS)
    added = mark[2] if isinstance(mark, list) else 0
    parts = message.parts[: len(message.parts) - added]
    shown = [_with(part, texts, moved=mark is not None) for part in parts]
    return replace(message, body=replace(message.body, parts=shown))


def _with(part: AnyPart, texts: Mapping[str, str], moved: bool) -> AnyPart:
    if isinstance(part, Media) and part.data is None and (part.blob or "") in texts:
        return replace(part, data=texts[part.blob or ""], blob=None)
    if isinstance(part, ToolResult) and moved:
        return replace(part, content=_inside(part.content, texts))
    return part


def _inside(value: Any, texts: Mapping[str, str]) -> Any:
    """The content of a result, in which a name stands for the bytes."""
    if isinstance(value, dict):
        return {
            key: texts.get(one, one)
            if key == "data" and isinstance(one, str)
            else _inside(one, texts)
            for key, one in value.items()
        }
    return [_inside(one, texts) for one in value] if isinstance(value, list) else value
