"""Messages of OpenAI's chat completions, which most other servers speak too.

An answer has its calls beside its content, each result is a message of its own. Chat has no word
for reasoning, errors of tools and media of an assistant or a tool: those are text between <think>
tags, {"error": ...}, and a message of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledgerstone.errors import InvalidValue
from ledgerstone.formats import convert
from ledgerstone.formats.natives import Native
from ledgerstone.formats.turns import Segment, turns
from ledgerstone.records.messages import Message, unnamed_message
from ledgerstone.records.parts import (
    AnyPart,
    Audio,
    Image,
    Media,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Video,
)

PLAIN, LISTED, NOTHING, FULL = "", "l", "n", "+"
"""Content as text, as a list, as null; and whether an answer names all its empty fields."""

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_EMPTY: Native = {"refusal": None, "annotations": [], "audio": None, "function_call": None}
_KIND, _CALLS = "openai-chat", "openai-chat-call"


class Chat:
    """The format."""

    def read(self, native: Native) -> tuple[Message, str]:
        role = native.get("role")
        if not isinstance(role, str):
            raise InvalidValue(_KIND, "a message has a role")
        parts, style = _read_content(native.get("content"), role)
        fields: dict[str, Any] = {"name": convert.text_of(native, "name")}
        if role in ("tool", "function"):
            call = convert.text_of(native, "tool_call_id")
            content, is_error = convert.error_of(_BLOCKS.read_answer(native.get("content")))
            parts = [ToolResult(call or "", content, fields.pop("name"), is_error)]
            fields |= {"tool_call_id": call} if call else {}
        if role == "assistant":
            parts = [*_thoughts(native), *parts]
        parts += _beside(native)
        known = role if role in _ROLES else "user"
        return unnamed_message(known, parts, **fields), style + (
            FULL if "refusal" in native else ""
        )

    def write(self, message: Message, style: str) -> Native:
        role = message.body.origin_role or message.body.role
        parts = message.parts
        answer = parts[0] if parts else None
        if isinstance(answer, ToolResult):
            return _tool(answer, role, style)
        called = [part for part in parts if _is_call(part)]
        spoken = [part for part in parts if not _is_call(part)] if called else parts
        found: Native = {"role": role, "content": _content(spoken, style)}
        if message.body.name is not None:
            found["name"] = message.body.name
        calls = [_call(part) for part in called]
        if FULL in style:
            content = found.pop("content")
            return {"content": content, **found, **_EMPTY, "tool_calls": calls or None}
        return {**found, "tool_calls": calls} if calls else found

    def render(self, messages: Sequence[Message]) -> list[Native]:
        return [one for turn in turns(messages) for one in _rendered(turn)]


FORMAT = Chat()


def _read_content(content: Any, role: str) -> tuple[list[AnyPart], str]:
    if isinstance(content, str):
        return (_BLOCKS.read(content, role) if content else []), PLAIN
    if isinstance(content, list):
        return _BLOCKS.read(content, role), LISTED
    return [], NOTHING


def _thoughts(native: Native) -> list[AnyPart]:
    """Reasoning in the fields that other servers have for it."""
    told = native.get("reasoning_content") or native.get("reasoning")
    return [Reasoning(told)] if isinstance(told, str) and told else []


def _beside(native: Native) -> list[AnyPart]:
    """What an answer says beside its content."""
    found: list[AnyPart] = []
    if isinstance(native.get("refusal"), str):
        found.append(Text(native["refusal"]))
    audio = native.get("audio")
    if isinstance(audio, dict) and isinstance(audio.get("data"), str):
        transcript = convert.text_of(audio, "transcript")
        found.append(Audio(data=audio["data"], transcript=transcript))
    calls = native.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        found.append(convert.part_of(_read_call, call, _CALLS))
    if not calls and isinstance(native.get("function_call"), dict):
        found.append(convert.part_of(_read_function, native["function_call"], _CALLS))
    return found


def _read_call(call: Any) -> AnyPart:
    function = call["function"]
    if call.get("type", "function") != "function" or not isinstance(call["id"], str):
        raise ValueError(call)
    return ToolCall(call["id"], function["name"], convert.arguments_of(function.get("arguments")))


def _read_function(function: Any) -> AnyPart:
    """A call as it was before there were several in one answer: its result goes by the name."""
    return ToolCall("", function["name"], convert.arguments_of(function.get("arguments")))


def _part(block: Any, role: str) -> AnyPart:
    match block["type"]:
        case "text":
            return convert.read_text(block["text"], role)
        case "refusal":
            return Text(block["refusal"])
        case "image_url":
            return convert.read_image_url(block["image_url"])
        case "input_audio":
            return convert.read_audio(block)
        case "file" if isinstance(block["file"].get("file_data"), str):
            file = block["file"]
            name = convert.text_of(file, "filename")
            return convert.media(None, url=file["file_data"], name=name)
        case "video_url":
            return Video(url=block["video_url"]["url"])
    raise ValueError(block["type"])


def _content(parts: list[AnyPart], style: str) -> Any:
    if NOTHING in style:
        return None
    if LISTED in style:
        return list(map(_block, parts))
    return convert.joined_text(parts)


def _block(part: AnyPart) -> Native:
    if isinstance(part, Reasoning):
        return convert.text_block(convert.tagged_thought(part.text))
    if isinstance(part, Text):
        return convert.text_block(part.text)
    if isinstance(part, Image):
        return {"type": "image_url", "image_url": convert.image_url(part)}
    if isinstance(part, Audio) and part.data is not None:
        return convert.audio_block(part)
    if isinstance(part, Media) and part.data is not None:
        file = {"file_data": convert.as_url(part)}
        return {"type": "file", "file": {**file, "filename": part.name} if part.name else file}
    block: Native = convert.other_block(part, _KIND, convert.text_block)
    return block


def _tool(part: ToolResult, role: str, style: str) -> Native:
    parts = convert.result_parts(part.content)
    content: Any = part.content
    if LISTED in style and parts is not None:
        content = list(map(_block, parts))
    elif part.is_error:
        content = convert.as_text(convert.as_error(content))
    found: Native = {"role": role}
    if part.call_id:
        found["tool_call_id"] = part.call_id
    found["content"] = content
    return {**found, "name": part.name} if part.name is not None else found


def _is_call(part: AnyPart) -> bool:
    return isinstance(part, ToolCall) or convert.is_verbatim(part, _CALLS)


def _call(part: AnyPart) -> Native:
    if not isinstance(part, ToolCall):
        block: Native = part["block"]  # type: ignore[index]
        return block
    arguments = "{}" if part.arguments is None else convert.as_text(part.arguments)
    function = {"name": part.name, "arguments": arguments}
    return {"id": part.id, "type": "function", "function": function}


def _rendered(turn: list[Segment]) -> list[Native]:
    first = turn[0]
    parts = [part for segment in turn for part in segment.parts]
    if first.role == "tool":
        results = [part for part in parts if isinstance(part, ToolResult)]
        shown = [one for part in results for one in _shown(part)]
        return [*map(_result, results), *([_BLOCKS.message("user", shown)] if shown else [])]
    origin = first.source.body.origin_role if first.role == first.source.role else None
    role = "developer" if origin == "developer" else first.role
    parts = [part for part in parts if not isinstance(part, Reasoning) or part.text]
    if role != "assistant":
        return [_named(_BLOCKS.message(role, parts), first)] if parts else []
    calls = [_call(part) for part in parts if isinstance(part, ToolCall)]
    found, spoken = _BLOCKS.shown([part for part in parts if not isinstance(part, ToolCall)])
    if spoken or calls:
        answer = _BLOCKS.message(role, spoken) if spoken else {"role": role, "content": None}
        found.append(_named({**answer, "tool_calls": calls} if calls else answer, first))
    return found


def _shown(part: ToolResult) -> list[AnyPart]:
    """Media that a tool answered with: only a user can show them."""
    return [one for one in convert.result_parts(part.content) or [] if isinstance(one, Media)]


def _result(part: ToolResult) -> Native:
    content = convert.result_text(part.content)
    if part.is_error:
        content = convert.as_text(convert.as_error(part.content))
    return {"role": "tool", "tool_call_id": part.call_id, "content": content}


def _named(found: Native, segment: Segment) -> Native:
    name = segment.source.body.name
    return found if name is None else {**found, "name": name}


_BLOCKS = convert.Blocks(_KIND, _part, _block)
