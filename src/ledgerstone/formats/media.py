"""Bytes that a message names by blob, put where a format shows them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from ledgerstone.errors import BlobNotFound, InvalidValue
from ledgerstone.formats.natives import NAMES, NATIVE, keep, native, origin
from ledgerstone.records.messages import Message
from ledgerstone.records.parts import AnyPart, File, Media, ToolResult

BLOBS = "blobs"
"""The place in `extra` where an adapter that moved bytes out of a native says from where:
[[[path, alphabet of the base64], ...], numbers of the media parts, how many parts it added]."""
REF_CHARS = 64


def blobs_of(message: Message) -> list[str]:
    """The blobs whose bytes are needed to show a message."""
    named = [part for part in message.parts if isinstance(part, Media) and part.data is None]
    return [part.blob for part in named if part.blob is not None]


def with_bytes(message: Message, found: Mapping[str, bytes | None]) -> Message:
    """The message with the bytes in it; blobs that are gone stay named."""
    exact = _made_again(message, found)
    if exact is not None:
        return exact
    texts = {ref: b64encode(data).decode() for ref, data in found.items() if data is not None}
    mark = (message.body.extra or {}).get(BLOBS)
    parts = message.parts[: _end(message.parts, mark)]
    shown = [_with(part, texts, moved=mark is not None) for part in parts]
    return replace(message, body=replace(message.body, parts=shown))


def with_refs(stored: Message) -> Message:
    """The message as it was made: references stand where the bytes were, and no part was added."""
    mark = (stored.body.extra or {}).get(BLOBS)
    if mark is None:
        return stored
    _, media, added = mark
    parts: list[Any] = list(stored.parts[: len(stored.parts) - added])
    for n in media:
        parts[n] = replace(parts[n], data=parts[n].blob, blob=None)
    return replace(stored, body=replace(stored.body, parts=parts))


def fill(native: Any, stored: Message, found: Mapping[str, bytes | None]) -> None:
    """Put the bytes back into what `with_refs` of a message gave; BlobNotFound."""
    mark = (stored.body.extra or {}).get(BLOBS)
    for path, alphabet in () if mark is None else mark[0]:
        holder, key = holder_of(native, path)
        ref = holder[key][-REF_CHARS:]
        data = found.get(ref)
        if data is None:
            raise BlobNotFound(ref)
        holder[key] = holder[key].removesuffix(ref) + encoded(data, alphabet)


def holder_of(native: Any, path: Sequence[str | int]) -> tuple[Any, Any]:
    """The object or list that a path leads into, and the key in it."""
    for step in path[:-1]:
        native = native[step]
    return native, path[-1]


def encoded(data: bytes, alphabet: str) -> str:
    """Bytes as base64, in the alphabet for urls or the standard one."""
    return b64encode(data, altchars=b"-_" if alphabet == "url" else None).decode()


def _made_again(message: Message, found: Mapping[str, bytes | None]) -> Message | None:
    """The message as if the bytes had never left its native; None when that cannot be told."""
    extra = message.body.extra or {}
    format = origin(message)
    if BLOBS not in extra or format not in NAMES:
        return None
    try:
        whole = deepcopy(native(format, [with_refs(message)])[0])
        fill(whole, message, found)
        kept = keep(format, whole).body
    except (LookupError, TypeError, ValueError, AttributeError, InvalidValue, BlobNotFound):
        return None
    marks = {**extra, NATIVE: (kept.extra or {})[NATIVE]}
    del marks[BLOBS]
    return replace(message, body=replace(message.body, parts=kept.parts, extra=marks))


def _end(parts: Sequence[AnyPart], mark: Any) -> int:
    """Where the parts that an adapter added begin; a message amended since may have none left."""
    added = mark[2] if isinstance(mark, list) and len(mark) > 2 else 0
    end = len(parts)
    while end and isinstance(added, int) and len(parts) - end < added:
        last = parts[end - 1]
        if not isinstance(last, File) or last.blob is None:
            break
        end -= 1
    return end


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
