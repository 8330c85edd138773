"""The parts of a message: typed where we know the type, verbatim where we do not.

A part is a Struct tagged by `type`. A part of an unknown type, or of a known type with fields
we do not know, stays the plain dictionary it came as: nothing of it is lost or altered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from ledgerstone.codec import check_json
from ledgerstone.errors import InvalidValue


class Part(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    tag_field="type",
    gc=False,
):
    """What every typed part is."""


class Text(Part, tag="text", frozen=True, gc=False):
    text: str


class Reasoning(Part, tag="reasoning", frozen=True, gc=False):
    text: str
    signature: str | None = None


class ToolCall(Part, tag="tool-call", frozen=True, gc=False):
    id: str
    name: str
    arguments: Any = None


class ToolResult(Part, tag="tool-result", frozen=True, gc=False):
    call_id: str
    content: Any = None
    name: str | None = None
    is_error: bool = False


class Source(Part, tag="source", frozen=True, gc=False):
    url: str | None = None
    title: str | None = None
    id: str | None = None
    text: str | None = None


class Media(Part, frozen=True, gc=False):
    """Bytes by reference (url, blob) or inline as base64 text (data)."""

    url: str | None = None
    blob: str | None = None
    data: str | None = None
    media_type: str | None = None
    name: str | None = None


class File(Media, tag="file", frozen=True, gc=False):
    pass


class Image(Media, tag="image", frozen=True, gc=False):
    detail: str | None = None


class Audio(Media, tag="audio", frozen=True, gc=False):
    transcript: str | None = None


class Video(Media, tag="video", frozen=True, gc=False):
    pass


class Code(Part, tag="code", frozen=True, gc=False):
    code: str
    language: str | None = None


class Json(Part, tag="json", frozen=True, gc=False):
    value: Any = None


TypedPart: TypeAlias = (
    Text | Reasoning | ToolCall | ToolResult | Source | File | Image | Audio | Video | Code | Json
)
AnyPart: TypeAlias = TypedPart | dict[str, Any]


def to_parts(content: object, field: str) -> list[AnyPart]:
    """Text, one part or a list of parts, as a list of parts."""
    if type(content) is not list:
        if isinstance(content, str):
            return [Text(content)]
        if content is None:
            return []
        if isinstance(content, Part | dict):
            content = [content]
        elif not isinstance(content, Iterable):
            raise InvalidValue(field, f"text or parts expected, got {type(content).__name__}")
    parts: Iterable[Any] = content
    return [
        Text(part) if type(part) is str else _to_part(part, f"{field}[{n}]")
        for n, part in enumerate(parts)
    ]


def read_part(data: Any) -> AnyPart:
    """A stored part: typed when it fits exactly, else the dictionary as it stands."""
    try:
        typed: TypedPart = msgspec.convert(data, TypedPart)
        return typed
    except (msgspec.ValidationError, UnicodeEncodeError):  # Not even a type with lone surrogates.
        found: dict[str, Any] = data
        return found


def read_result(content: Any) -> list[AnyPart] | None:
    """The text and media that a tool answered with; None when it answered with a value."""
    if not isinstance(content, list) or not content:
        return None
    parts: list[AnyPart] = []
    for one in content:
        part = read_part(one) if isinstance(one, dict) else None
        if not isinstance(part, Text | Media):
            return None
        parts.append(part)
    return parts


def _to_part(part: object, field: str) -> AnyPart:
    if isinstance(part, str):
        return Text(part)
    if isinstance(part, Part):
        _check_free(part, field)
        return part  # type: ignore[return-value]
    if isinstance(part, dict):
        if not isinstance(part.get("type"), str):
            raise InvalidValue(field, 'a part needs a text "type"')
        check_json(part, field)
        return read_part(part)
    raise InvalidValue(field, f"a part or text expected, got {type(part).__name__}")


def _check_free(part: Part, field: str) -> None:
    """The places of a typed part where a caller may put anything."""
    name = _FREE.get(type(part))
    if name is not None:
        check_json(getattr(part, name), f"{field}.{name}")
    elif isinstance(part, Text) and not isinstance(part.text, str):
        raise InvalidValue(f"{field}.text", f"text expected, got {type(part.text).__name__}")


_FREE = {ToolCall: "arguments", ToolResult: "content", Json: "value"}
