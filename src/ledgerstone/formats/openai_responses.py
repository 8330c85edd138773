"""Items of OpenAI's Responses API, as openai-agents keeps them: one item is one message.

Calls, reasoning and hosted tools are items without a role; they are said by the assistant, results
by a tool. An item of a type that is not known here is a part as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledgerstone.codec import decode_json, encode_json
from ledgerstone.formats.keeping import Native
from ledgerstone.records.messages import Message, message
from ledgerstone.records.parts import AnyPart, File, Image, Reasoning, Text, ToolCall, ToolResult

PLAIN, LISTED, ITEM = "", "list", "item"
"""A message with its content as text, as a list, or as an output item with a type."""

_TEXTS = {"input_text", "output_text", "text", "refusal"}


class Responses:
    """The format."""

    def read(self, native: Native) -> tuple[Message, str]:
        kind = native.get("type", "message")
        if kind == "message" and isinstance(native.get("role"), str):
            return _read_message(native)
        if kind == "function_call" and isinstance(native.get("call_id"), str):
            call = ToolCall(native["call_id"], str(native.get("name", "")), _parsed(native))
            return message("assistant", [call]), kind
        if kind == "function_call_output" and isinstance(native.get("call_id"), str):
            result = ToolResult(native["call_id"], native.get("output"))
            return message("tool", [result], tool_call_id=native["call_id"]), kind
        if kind == "reasoning":
            texts = [one.get("text", "") for one in native.get("summary") or []]
            part = Reasoning("\n\n".join(texts), native.get("encrypted_content"))
            return message("assistant", [part]), kind
        return message("assistant", [native if "type" in native else {**native, "type": kind}]), ""

    def write(self, message: Message, style: str) -> Native:
        part = message.parts[0] if message.parts else Text("")
        if isinstance(part, ToolCall):
            return _call(part)
        if isinstance(part, ToolResult):
            return {"call_id": part.call_id, "output": part.content, "type": "function_call_output"}
        if isinstance(part, Reasoning):
            return _reasoning(part)
        if isinstance(part, dict) and style == "":
            return part
        role = message.body.origin_role or message.role
        content: Any = message.text
        if style != PLAIN:
            content = [_block(one, role) for one in message.parts]
        found = {"role": role, "content": content}
        return {**found, "type": "message"} if style == ITEM else found

    def render(self, messages: Sequence[Message]) -> list[Native]:
        return [item for one in messages for item in _items(one)]


FORMAT = Responses()


def _read_message(native: Native) -> tuple[Message, str]:
    role, content = native["role"], native.get("content")
    known = role if role in ("system", "developer", "user", "assistant") else "user"
    if isinstance(content, str):
        return message(known, content), ITEM if "type" in native else PLAIN
    parts = [_part(block) for block in content or []]
    return message(known, parts), ITEM if "type" in native else LISTED


def _part(block: Any) -> AnyPart:
    kind = block.get("type")
    if kind in _TEXTS and isinstance(block.get("text", block.get("refusal")), str):
        return Text(block.get("text", block.get("refusal")))
    if kind == "input_image" and isinstance(block.get("image_url"), str):
        return Image(url=block["image_url"], detail=block.get("detail"))
    if kind == "input_file":
        return File(
            url=block.get("file_url"), data=block.get("file_data"), name=block.get("filename")
        )
    return {"type": "openai-block", "block": block}


def _block(part: AnyPart, role: str) -> Native:
    if isinstance(part, Text):
        if role == "assistant":
            return {"annotations": [], "text": part.text, "type": "output_text", "logprobs": []}
        return {"type": "input_text", "text": part.text}
    if isinstance(part, Image):
        return {"type": "input_image", "image_url": _url(part), "detail": part.detail or "auto"}
    if isinstance(part, File):
        known = {"file_url": part.url, "file_data": part.data, "filename": part.name}
        return {"type": "input_file", **{key: one for key, one in known.items() if one is not None}}
    if isinstance(part, dict) and part.get("type") == "openai-block":
        return part["block"]  # type: ignore[no-any-return]
    return {"type": "input_text", "text": encode_json(_plain(part), "part").decode()}


def _items(given: Message) -> list[Native]:
    """What a message of another origin says, item by item."""
    items: list[Native] = []
    said: list[AnyPart] = []
    for part in given.parts:
        if isinstance(part, ToolCall):
            items.append(_call(part))
        elif isinstance(part, ToolResult):
            output = part.content
            if not isinstance(output, str):
                output = encode_json(output, "output").decode()
            items.append(
                {"call_id": part.call_id, "output": output, "type": "function_call_output"}
            )
        elif isinstance(part, Reasoning):
            items.append(_reasoning(part))
        else:
            said.append(part)
    if said:
        role = "user" if given.role == "tool" else given.body.origin_role or given.role
        only_text = all(isinstance(part, Text) for part in said)
        content: Any = given.text if only_text else [_block(part, role) for part in said]
        place = len([item for item in items if item["type"] == "reasoning"])
        items.insert(place, {"role": role, "content": content})
    return items


def _call(part: ToolCall) -> Native:
    arguments = part.arguments
    if not isinstance(arguments, str):
        arguments = encode_json(arguments, "arguments").decode()
    return {
        "arguments": arguments,
        "call_id": part.id,
        "name": part.name,
        "type": "function_call",
    }


def _reasoning(part: Reasoning) -> Native:
    found: Native = {
        "summary": [{"text": part.text, "type": "summary_text"}] if part.text else [],
        "type": "reasoning",
    }
    if part.signature is not None:
        found["encrypted_content"] = part.signature
    return found


def _parsed(native: Native) -> Any:
    """The arguments of a call, as a value when their text is JSON that says an object."""
    text = native.get("arguments")
    if not isinstance(text, str):
        return text
    try:
        value = decode_json(text.encode())
    except ValueError:
        return text
    # Only what is written again as the same text is worth being taken apart.
    return value if isinstance(value, dict) else text


def _url(part: Image) -> str:
    if part.url is not None:
        return part.url
    return f"data:{part.media_type or 'image/png'};base64,{part.data or ''}"


def _plain(part: Any) -> Any:
    return part if isinstance(part, dict) else {"type": type(part).__name__}
