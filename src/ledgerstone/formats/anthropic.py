"""Messages of Anthropic's API, as they are sent and as they are answered (with id and usage).

Results of tools stand in a message of the user, system prompts beside the messages; here a prompt
is a message of the role system, which `session.as_anthropic()` takes out of the list. Thinking that
another provider signed is text between <think> tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledgerstone.errors import InvalidValue
from ledgerstone.formats import convert
from ledgerstone.formats.natives import Native
from ledgerstone.formats.turns import Segment, turns
from ledgerstone.records.messages import Message, unnamed_message
from ledgerstone.records.parts import AnyPart, Image, Media, Reasoning, Text, ToolCall, ToolResult
from ledgerstone.records.usage import Usage

PLAIN, LISTED, FULL = "", "l", "+"
"""Content as text, as a list; and whether it is an answer with its id and usage."""

_KIND = "anthropic"
_REASONS = {
    "end_turn": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_SPELLED = {ours: theirs for theirs, ours in _REASONS.items()}
_COUNTS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_creation_input_tokens": "cache_write",
    "cache_read_input_tokens": "cached_input",
}


class Anthropic:
    """The format."""

    def read(self, native: Native) -> tuple[Message, str]:
        role = native.get("role")
        if not isinstance(role, str):
            raise InvalidValue(_KIND, "a message has a role")
        content = native.get("content")
        parts = _BLOCKS.read(content, role) if isinstance(content, str | list) else []
        style = LISTED if isinstance(content, list) else PLAIN
        results = [part for part in parts if isinstance(part, ToolResult)]
        known = role if role in ("system", "assistant") else "user"
        fields: dict[str, Any] = {}
        if results and len(results) == len(parts):
            known = "tool"
            fields = {"tool_call_id": results[0].call_id} if len(results) == 1 else {}
        if isinstance(native.get("usage"), dict):
            fields |= _answered(native)
            style += FULL
        return unnamed_message(known, parts, **fields), style

    def write(self, message: Message, style: str) -> Native:
        role = "user" if message.role == "tool" else message.role
        listed = LISTED in style
        parts = message.parts
        content: Any = list(map(_block, parts)) if listed else convert.joined_text(parts)
        if FULL not in style:
            return {"role": role, "content": content}
        body = message.body
        return {
            "id": "",
            "type": "message",
            "role": role,
            "model": body.model,
            "content": content,
            "stop_reason": _SPELLED.get(body.finish_reason or ""),
            "stop_sequence": None,
            "usage": _counts(body.usage or Usage()),
        }

    def render(self, messages: Sequence[Message]) -> list[Native]:
        return [one for turn in turns(messages) for one in _rendered(turn)]


FORMAT = Anthropic()


def _answered(native: Native) -> dict[str, Any]:
    usage = {ours: convert.count(native["usage"].get(theirs)) for theirs, ours in _COUNTS.items()}
    reason = convert.text_of(native, "stop_reason")
    return {
        "model": convert.text_of(native, "model"),
        "finish_reason": _REASONS.get(reason or ""),
        "usage": Usage(**usage),
    }


def _counts(usage: Usage) -> Native:
    found: Native = {theirs: getattr(usage, ours) for theirs, ours in _COUNTS.items()}
    return found


def _part(block: Any, role: str) -> AnyPart:
    match block["type"]:
        case "text":
            return convert.read_text(block["text"], role)
        case "thinking":
            return Reasoning(block["thinking"], convert.text_of(block, "signature"))
        case "redacted_thinking":
            return Reasoning("", block["data"])
        case "tool_use":
            return ToolCall(block["id"], block["name"], block.get("input"))
        case "tool_result":
            content = _BLOCKS.read_answer(block.get("content"), "user")
            return ToolResult(block["tool_use_id"], content, None, block.get("is_error") is True)
        case "image":
            return _media(block["source"], image=True)
        case "document":
            return _media(block["source"], name=convert.text_of(block, "title"))
    raise ValueError(block["type"])


def _media(source: Any, *, image: bool = False, name: str | None = None) -> AnyPart:
    if source["type"] == "base64":
        found = convert.media(source["media_type"], data=source["data"], name=name)
    elif source["type"] == "url" and isinstance(source["url"], str):
        found = Image(url=source["url"]) if image else convert.media(None, url=source["url"])
    else:
        raise ValueError(source["type"])
    if isinstance(found, Image) is not image:
        raise ValueError(source["type"])
    return found


def _block(part: AnyPart) -> Native:
    if isinstance(part, Text):
        return convert.text_block(part.text)
    if isinstance(part, Reasoning):
        if part.signature is None:
            return convert.text_block(convert.tagged_thought(part.text))
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    if isinstance(part, ToolCall):
        arguments = convert.as_object(part.arguments)
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments}
    if isinstance(part, ToolResult):
        return _result(part)
    if isinstance(part, Media):
        return _source(part)
    block: Native = convert.other_block(part, _KIND, convert.text_block)
    return block


def _source(part: Media) -> Native:
    if part.data is not None:
        kind = part.media_type or convert.default_type(part)
        source = {"type": "base64", "media_type": kind, "data": part.data}
    else:
        source = {"type": "url", "url": convert.as_url(part)}
    if isinstance(part, Image):
        return {"type": "image", "source": source}
    found: Native = {"type": "document", "source": source}
    return found if part.name is None else {**found, "title": part.name}


def _result(part: ToolResult) -> Native:
    parts = convert.result_parts(part.content)
    content = part.content
    if parts is not None:
        content = list(map(_block, parts))
    elif content is not None and not isinstance(content, str):
        content = convert.as_text(content)
    found: Native = {"type": "tool_result", "tool_use_id": part.call_id}
    if content is not None:
        found["content"] = content
    return {**found, "is_error": True} if part.is_error else found


def _rendered(turn: list[Segment]) -> list[Native]:
    role = turn[0].role
    parts = [_signed(part, segment) for segment in turn for part in segment.parts]
    parts = [part for part in parts if not isinstance(part, Reasoning) or _is_told(part)]
    if role != "assistant":
        return [_BLOCKS.message("user" if role == "tool" else role, parts)] if parts else []
    shown, rest = _BLOCKS.shown(parts)
    return [*shown, _BLOCKS.message(role, rest)] if rest else shown


def _signed(part: AnyPart, segment: Segment) -> AnyPart:
    """Thinking with its signature only where Anthropic gave it: it refuses any other."""
    if isinstance(part, Reasoning) and segment.signer not in (None, _KIND):
        return Reasoning(part.text)
    return part


def _is_told(part: Reasoning) -> bool:
    return bool(part.text or part.signature)


_BLOCKS = convert.Blocks(_KIND, _part, _block)
