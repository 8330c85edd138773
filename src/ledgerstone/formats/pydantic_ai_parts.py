"""The parts of Pydantic AI's requests and responses."""

from __future__ import annotations

import mimetypes
from functools import lru_cache
from typing import Any

from ledgerstone.formats import convert
from ledgerstone.formats.natives import Native
from ledgerstone.formats.turns import is_system, system_part
from ledgerstone.records.parts import (
    AnyPart,
    Audio,
    File,
    Image,
    Media,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Video,
)

KIND = "pydantic-ai"

_URLS: dict[str, type[convert.AnyMedia]] = {
    "image-url": Image,
    "audio-url": Audio,
    "video-url": Video,
    "document-url": File,
}


class RequestReader:
    """The parts of a request, and its style: a letter for each part of the native, in order.

    i instructions, s system prompt, u prompt (with the number of its items when it is a list), t
    result, r result that asks to try again, f such a prompt without a call, x anything else.
    """

    def __init__(self, native: Native) -> None:
        self.parts: list[AnyPart] = []
        self.style = ""
        natives = native["parts"]
        kinds = [part.get("part_kind") if isinstance(part, dict) else None for part in natives]
        self._only_system = bool(kinds) and all(kind == "system-prompt" for kind in kinds)
        instructions = native.get("instructions")
        if isinstance(instructions, str):
            self.parts.append(system_part(instructions, kind="instructions"))
            self.style += "i"
        for part in natives:
            letter, found = self._read(part)
            self.style += letter
            self.parts += found
        self.role = self._role()

    def _role(self) -> str:
        letters = set(self.style) - {"i"}
        if self._only_system:
            return "system"
        return "tool" if letters and letters <= {"t", "r"} else "user"

    def _read(self, part: Any) -> tuple[str, list[AnyPart]]:
        try:
            letter, found = self._known(part)
            return letter, [convert.checked(one) for one in found]
        except convert.SHAPES:
            return "x", [convert.verbatim(part, KIND)]

    def _known(self, part: Any) -> tuple[str, list[AnyPart]]:
        kind, content = part["part_kind"], part["content"]
        if kind == "system-prompt" and isinstance(content, str):
            return "s", [Text(content) if self._only_system else system_part(content)]
        if kind == "user-prompt":
            if isinstance(content, str):
                return "u", [Text(content)]
            if isinstance(content, list):
                found = [convert.part_of(_read_content, one, KIND) for one in content]
                return f"u{len(found)},", found
        if kind == "tool-return":
            return "t", [_read_return(part)]
        if kind == "retry-prompt" and isinstance(part["tool_name"], str):
            return "r", [ToolResult(part["tool_call_id"], content, part["tool_name"], True)]
        if kind in ("retry-prompt", "retry-feedback") and isinstance(content, str):
            return "f", [Text(content)]
        raise ValueError(kind)


def write_request_parts(parts: list[AnyPart], style: str) -> tuple[list[Native], str | None]:
    """The parts of a request of that style, and its instructions."""
    found: list[Native] = []
    instructions = None
    rest = iter(parts)
    for letter, size in _letters(style):
        if letter == "u" and size is not None:
            found.append(user_prompt([_next(rest) for _ in range(size)], "", listed=True))
            continue
        part = _next(rest)
        if letter == "i":
            instructions = _text(part)
        else:
            found.append(_write_request_part(part, letter))
    return found, instructions


@lru_cache(maxsize=512)
def _letters(style: str) -> tuple[tuple[str, int | None], ...]:
    found: list[tuple[str, int | None]] = []
    at = 0
    while at < len(style):
        letter = style[at]
        at += 1
        size = None
        if letter == "u" and style[at : at + 1].isdigit():
            end = style.index(",", at)
            size, at = int(style[at:end]), end + 1
        found.append((letter, size))
    return tuple(found)


def _next(rest: Any) -> AnyPart:
    found: AnyPart = next(rest, Text(""))
    return found


def _write_request_part(part: AnyPart, letter: str) -> Native:
    match letter:
        case "s":
            return system_prompt(_text(part), "")
        case "u":
            return user_prompt([part], "", listed=False)
        case "t" if isinstance(part, ToolResult):
            return tool_return(part, "")
        case "r" if isinstance(part, ToolResult):
            found = {"content": part.content, "tool_name": part.name}
            found |= {"tool_call_id": part.call_id, "timestamp": "", "part_kind": "retry-prompt"}
            return found
        case "f":
            found = {"content": _text(part), "tool_name": None, "tool_call_id": ""}
            return {**found, "timestamp": "", "part_kind": "retry-prompt"}
    block: Native = convert.other_block(part, KIND, lambda text: {})
    return block


def _text(part: AnyPart) -> str:
    if isinstance(part, Text):
        return part.text
    return str(part["text"]) if is_system(part) and isinstance(part, dict) else ""


def system_prompt(text: str, at: str | None) -> Native:
    empty = {"dynamic_ref": None, "scope": "conversation", "metadata": None}
    return {"content": text, **_timestamp(at), **empty, "part_kind": "system-prompt"}


def user_prompt(parts: list[AnyPart], at: str | None, *, listed: bool) -> Native:
    content: Any = [write_content(part) for part in parts] if listed else _text(parts[0])
    return {"content": content, **_timestamp(at), "part_kind": "user-prompt"}


def _timestamp(at: str | None) -> Native:
    return {} if at is None else {"timestamp": at}


def tool_return(part: ToolResult, at: str | None) -> Native:
    parts = convert.result_parts(part.content)
    content = part.content
    if parts is not None and any(isinstance(one, Media) for one in parts):
        content = [write_content(one) for one in parts]
    return {
        "tool_name": part.name or "tool",
        "content": content,
        "tool_call_id": part.call_id,
        "tool_kind": None,
        "metadata": None,
        **_timestamp(at),
        "outcome": "failed" if part.is_error else "success",
        "retry": None,
        "part_kind": "tool-return",
    }


def _read_return(part: Any) -> ToolResult:
    content = part["content"]
    if isinstance(content, list) and content:
        found = [convert.part_of(_read_content, one, KIND) for one in content]
        if any(isinstance(one, Media) for one in found) and all(
            isinstance(one, Text | Media) for one in found
        ):
            content = convert.result_content(found)
    failed = part.get("outcome") not in (None, "success")
    name = convert.text_of(part, "tool_name")
    return ToolResult(part["tool_call_id"], content, name, failed)


def _read_content(item: Any) -> AnyPart:
    """One item of a prompt."""
    if isinstance(item, str):
        return Text(item)
    kind = item["kind"]
    if kind == "text-content":
        return Text(item["content"])
    given = convert.text_of(item, "media_type")
    if kind == "binary":
        return convert.media(given, data=convert.standard(item["data"]))
    return _URLS[kind](url=item["url"], media_type=given)


def write_content(part: AnyPart) -> Any:
    """A part as an item of a prompt."""
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Media):
        return _binary(part) if part.data is not None else _url(part)
    return convert.other_block(part, KIND, str)


def _binary(part: Media) -> Native:
    found: Native = {"data": convert.urlsafe(part.data or "")}
    found["media_type"] = part.media_type or convert.default_type(part)
    return {**found, "vendor_metadata": None, "kind": "binary"}


def _url(part: Media) -> Native:
    kind = next((kind for kind, cls in _URLS.items() if isinstance(part, cls)), "document-url")
    url = convert.as_url(part)
    given = part.media_type or mimetypes.guess_type(url)[0] or convert.default_type(part)
    found: Native = {"url": url, "force_download": False, "vendor_metadata": None}
    return {**found, "kind": kind, "media_type": given}


def read_response_part(part: Any) -> AnyPart:
    """One part of a response; ValueError and its like for one that is not known."""
    match part["part_kind"]:
        case "text":
            return Text(part["content"])
        case "thinking":
            return Reasoning(part["content"], convert.text_of(part, "signature"))
        case "tool-call" | "builtin-tool-call":
            arguments = convert.arguments_of(part.get("args"))
            return ToolCall(part["tool_call_id"], part["tool_name"], arguments)
        case "builtin-tool-return":
            return _read_return(part)
        case "file":
            return _read_content(part["content"])
    raise ValueError(part["part_kind"])


def write_response_part(
    part: AnyPart, provider: str | None, text_arguments: bool, answered: set[str]
) -> Native:
    """A part of a response; calls that are answered in it were run by the provider."""
    given: Native = {"provider_name": None, "provider_details": None}
    if isinstance(part, Text):
        text = {"content": part.text, "id": None, **given, "citations": None}
        return {**text, "part_kind": "text"}
    match part:
        case Reasoning():
            found = {"content": part.text, "id": None, "signature": part.signature, **given}
            if part.signature is not None:
                found["provider_name"] = provider
            return {**found, "part_kind": "thinking"}
        case ToolCall():
            kind = "builtin-tool-call" if part.id in answered else "tool-call"
            arguments = part.arguments
            if text_arguments and arguments is not None:
                arguments = convert.as_text(arguments)
            found = {"tool_name": part.name, "args": arguments, "tool_call_id": part.id}
            return {**found, "tool_kind": None, "id": None, **given, "part_kind": kind}
        case ToolResult():
            found = tool_return(part, "")
            del found["retry"]
            return {**found, **given, "part_kind": "builtin-tool-return"}
        case File() | Image() | Audio() | Video():
            return {"content": write_content(part), "id": None, **given, "part_kind": "file"}
    block: Native = convert.other_block(
        part, KIND, lambda text: {"content": text, "part_kind": "text"}
    )
    return block
