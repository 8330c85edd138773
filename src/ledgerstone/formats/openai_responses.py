"""Items of OpenAI's Responses API, as openai-agents keeps them: one item is one message.

Calls, reasoning and hosted tools are items without a role; they are said by the assistant, results
by a tool. An item of a type that is not known here is a part as it stands.

Shown to OpenAI, reasoning that another provider signed is text between <think> tags, an error of a
tool is {"error": ...}, and what the assistant showed (images) stands in a message of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ledgerstone.errors import InvalidValue
from ledgerstone.formats import convert
from ledgerstone.formats.natives import Native
from ledgerstone.formats.turns import Segment, segments
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
)

PLAIN, THOUGHT, LISTED, ITEM, NAMED = "", "t", "l", "i", "+"
"""Content as text, as text that is a thought, as a list; an output item, with an id."""

_ROLES = {"system": "system", "developer": "developer", "user": "user", "assistant": "assistant"}
_KIND = "openai"
_NOTHING = Text("")


class Responses:
    """The format."""

    def read(self, native: Native) -> tuple[Message, str]:
        kind, role = native.get("type", "message"), native.get("role")
        if not isinstance(kind, str) or ("type" not in native and not isinstance(role, str)):
            raise InvalidValue(_KIND, "an item has a type, or a role")
        if kind == "message" and isinstance(role, str):
            return _read_message(native, role)
        named = NAMED if "id" in native else ""
        part = convert.part_of(_read_item, native, _KIND)
        if isinstance(part, ToolResult):
            fields = {"tool_call_id": part.call_id} if part.call_id else {}
            return unnamed_message("tool", [part], **fields), named
        if convert.is_verbatim(part, _KIND) and "type" in native:
            part = native
        return unnamed_message("assistant", [part, *_unabridged(native, part)]), named

    def write(self, message: Message, style: str) -> Native:
        parts = message.parts
        part = parts[0] if parts else _NOTHING
        if isinstance(part, ToolCall):
            return _call(part, NAMED in style)
        if isinstance(part, ToolResult):
            return _output(part)
        if isinstance(part, Reasoning) and style in (PLAIN, NAMED):
            return _reasoning(part, NAMED in style)
        if isinstance(part, dict) and style in (PLAIN, NAMED):
            return part
        role = message.body.origin_role or message.body.role
        if style in (PLAIN, THOUGHT):
            return {"role": role, "content": convert.joined_text(parts)}
        content = [_block(one, role) for one in parts]
        if style == LISTED:
            return {"role": role, "content": content}
        found: Native = {"id": ""} if NAMED in style else {}
        found |= {"content": content, "role": role, "status": "completed", "type": "message"}
        return found

    def render(self, messages: Sequence[Message]) -> list[Native]:
        return [item for segment in segments(messages) for item in _items(segment)]


FORMAT = Responses()


def _read_message(native: Native, role: str) -> tuple[Message, str]:
    content = native.get("content")
    known = _ROLES.get(role, "user")
    parts: list[AnyPart] = []
    style = PLAIN
    if isinstance(content, str):
        parts = _BLOCKS.read(content, role)
        style = PLAIN if isinstance(parts[0], Text) else THOUGHT
    elif isinstance(content, list):
        parts = _BLOCKS.read(content, role)
        style = LISTED
    if "type" in native and style == LISTED:
        style = ITEM + NAMED if "id" in native else ITEM
    return unnamed_message(known, parts), style


def _read_item(native: Native) -> AnyPart:
    kind = native["type"]
    if kind == "function_call":
        call, name = native["call_id"], native["name"]
        if isinstance(call, str) and isinstance(name, str):
            return ToolCall(call, name, convert.arguments_of(native.get("arguments")))
    if kind == "function_call_output" and isinstance(native["call_id"], str):
        content, is_error = convert.error_of(_BLOCKS.read_answer(native.get("output")))
        return ToolResult(native["call_id"], content, None, is_error)
    if kind == "reasoning":
        texts = [one["text"] for one in native.get("summary") or native.get("content") or []]
        return Reasoning("\n\n".join(texts), convert.text_of(native, "encrypted_content"))
    raise ValueError(kind)


def _unabridged(native: Native, part: AnyPart) -> list[AnyPart]:
    """The reasoning itself, where an item has it beside a summary of it."""
    content = native.get("content")
    if not (isinstance(part, Reasoning) and native.get("summary") and isinstance(content, list)):
        return []
    texts = [one.get("text") for one in content if isinstance(one, dict)]
    return [Reasoning(text) for text in texts if isinstance(text, str)]


def _part(block: Any, role: str) -> AnyPart:
    match block["type"]:
        case "input_text" | "output_text" | "text":
            return convert.read_text(block["text"], role)
        case "refusal":
            return Text(block["refusal"])
        case "input_image" if isinstance(block.get("image_url"), str):
            return convert.image(block["image_url"], convert.text_of(block, "detail"))
        case "input_file" if "file_data" in block or "file_url" in block:
            url = block.get("file_data") or block.get("file_url")
            name = convert.text_of(block, "filename")
            return convert.media(None, url=url, name=name)
        case "input_audio":
            return convert.read_audio(block)
    raise ValueError(block["type"])


def _block(part: AnyPart, role: str) -> Native:
    if isinstance(part, Text):
        if role == "assistant":
            return {"annotations": [], "text": part.text, "type": "output_text", "logprobs": []}
        return {"type": "input_text", "text": part.text}
    if isinstance(part, Reasoning):
        return _block(Text(convert.tagged_thought(part.text)), role)
    if isinstance(part, Image):
        return {
            "type": "input_image",
            "image_url": convert.as_url(part),
            "detail": part.detail or "auto",
        }
    if isinstance(part, Audio) and part.data is not None:
        return convert.audio_block(part)
    if isinstance(part, Media):
        place = "file_url" if part.data is None else "file_data"
        found = {"type": "input_file", place: convert.as_url(part)}
        return found if part.name is None else {**found, "filename": part.name}
    block: Native = convert.other_block(part, _KIND, lambda text: _block(Text(text), role))
    return block


def _items(segment: Segment) -> list[Native]:
    """What a message of another origin says in one role, item by item."""
    role = segment.source.body.origin_role if segment.role == segment.source.role else None
    role = role if role == "developer" else segment.role
    items: list[Native] = []
    spoken: list[AnyPart] = []

    def speak() -> None:
        if spoken:
            items.extend(_messages(role, spoken))
            spoken.clear()

    for part in segment.parts:
        if isinstance(part, ToolCall):
            speak()
            items.append(_call(part))
        elif isinstance(part, ToolResult):
            speak()
            items.append(_output(part))
        elif isinstance(part, Reasoning) and part.signature and segment.signer in (None, "openai"):
            speak()
            items.append(_reasoning(part))
        elif not isinstance(part, Reasoning) or part.text:
            spoken.append(part)
    speak()
    return items


def _messages(role: str, parts: list[AnyPart]) -> list[Native]:
    """A message; those of the assistant are texts, and what it shows can only the user show."""
    if role != "assistant":
        return [_BLOCKS.message(role, parts)]
    shown, rest = _BLOCKS.shown(parts)
    return [*shown, *({"role": role, "content": _text(part)} for part in rest)]


def _text(part: AnyPart) -> str:
    if isinstance(part, Reasoning):
        return convert.tagged_thought(part.text)
    return convert.part_as_text(part)


def _call(part: ToolCall, named: bool = False) -> Native:
    found = {
        "arguments": "{}" if part.arguments is None else convert.as_text(part.arguments),
        "call_id": part.id,
        "name": part.name,
        "type": "function_call",
    }
    if named:
        found |= {"id": "", "status": "completed"}
    return found


def _output(part: ToolResult) -> Native:
    parts = convert.result_parts(part.content)
    output: Any = part.content
    if parts is not None and not part.is_error:
        output = [_block(one, "tool") for one in parts]
    elif part.is_error or not isinstance(output, str):
        output = convert.as_text(convert.as_error(output) if part.is_error else output)
    return {"call_id": part.call_id, "output": output, "type": "function_call_output"}


def _reasoning(part: Reasoning, named: bool = False) -> Native:
    found: Native = {
        "summary": [{"text": part.text, "type": "summary_text"}] if part.text else [],
        "type": "reasoning",
    }
    if part.signature is not None:
        found["encrypted_content"] = part.signature
    return {"id": "", **found} if named else found


_BLOCKS = convert.Blocks(_KIND, _part, partial(_block, role="user"))
