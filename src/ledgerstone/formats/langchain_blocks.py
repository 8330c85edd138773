"""Blocks of content inside LangChain's messages, in the spellings that its integrations use."""

from __future__ import annotations

from typing import Any

from ledgerstone.formats import convert
from ledgerstone.formats.natives import Native
from ledgerstone.records.parts import (
    AnyPart,
    Audio,
    File,
    Image,
    Media,
    Reasoning,
    Text,
    ToolCall,
    Video,
)

LISTED, IMAGE_URLS, USES, CALLED, FUNCTIONS = "*", "o", "u", "c", "f"
"""Flags of a style: content is a list; images as image_url; calls as tool_use, tool_call or
function_call, one of which then stands in the content for each call."""

_KIND = "langchain"
_FLAGS = {
    "image_url": IMAGE_URLS,
    "tool_use": USES,
    "tool_call": CALLED,
    "function_call": FUNCTIONS,
}
_MEDIA: dict[str, type[convert.AnyMedia]] = {
    "image": Image,
    "audio": Audio,
    "video": Video,
    "file": File,
}


def read_blocks(content: list[Any]) -> tuple[list[AnyPart], str]:
    """The parts of a list of blocks, and the flags of their spelling."""
    parts = [convert.part_of(read_block, block, _KIND) for block in content]
    kinds = {str(block.get("type")) for block in content if isinstance(block, dict)}
    return parts, LISTED + "".join(flag for kind, flag in _FLAGS.items() if kind in kinds)


def read_block(block: Any) -> AnyPart:
    """One block; ValueError and its like for one that is not known."""
    if isinstance(block, str):
        return Text(block)
    match block["type"]:
        case "text":
            return Text(block["text"])
        case "refusal":
            return Text(block["refusal"])
        case "thinking" | "redacted_thinking" | "reasoning":
            return _reasoning(block)
        case "tool_use":
            return ToolCall(block["id"], block["name"], block["input"])
        case "tool_call":
            return ToolCall(block["id"], block["name"], block["args"])
        case "function_call":
            arguments = convert.arguments_of(block["arguments"])
            return ToolCall(block["call_id"], block["name"], arguments)
        case _:
            return _media(block)


def _reasoning(block: Any) -> Reasoning:
    if block["type"] == "thinking":
        return Reasoning(block["thinking"], convert.text_of(block, "signature"))
    if block["type"] == "redacted_thinking":
        return Reasoning("", block["data"])
    extras = block.get("extras")
    given = extras.get("signature") if isinstance(extras, dict) else None
    signature = convert.text_or_none(block.get("encrypted_content") or given)
    if isinstance(block.get("reasoning"), str):
        return Reasoning(block["reasoning"], signature)
    return Reasoning("\n\n".join(one["text"] for one in block.get("summary") or []), signature)


def _media(block: Any) -> AnyPart:
    kind = block["type"]
    if kind == "image_url":
        shown = block["image_url"]
        if isinstance(shown, str):
            return convert.image(shown)
        return convert.read_image_url(shown)
    source = block.get("source", block)
    data = source.get("base64") or source.get("data")
    given = source.get("mime_type") or source.get("media_type")
    found = convert.media(given, url=None if data else source["url"], data=data)
    name = convert.text_of(block, "filename")
    return _MEDIA[kind](url=found.url, data=found.data, media_type=found.media_type, name=name)


def write_block(part: AnyPart, provider: str | None, flags: str) -> Any:
    """A part as a block, in the spelling that the flags say."""
    if isinstance(part, Text):
        return convert.text_block(part.text)
    if isinstance(part, Reasoning):
        return _thought(part, provider)
    if isinstance(part, ToolCall) and FUNCTIONS in flags:
        named = {"type": "function_call", "name": part.name, "call_id": part.id}
        return {**named, "arguments": convert.as_text(part.arguments), "id": ""}
    if isinstance(part, ToolCall):
        key, kind = ("args", "tool_call") if CALLED in flags else ("input", "tool_use")
        return {"type": kind, "id": part.id, "name": part.name, key: part.arguments}
    if isinstance(part, Image) and IMAGE_URLS in flags:
        return {"type": "image_url", "image_url": convert.image_url(part)}
    if isinstance(part, Media):
        return _shown(part)
    return convert.other_block(part, _KIND, convert.text_block)


def _thought(part: Reasoning, provider: str | None) -> Native:
    if provider == "anthropic" and part.signature is not None:
        if not part.text:
            return {"type": "redacted_thinking", "data": part.signature}
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    found: Native = {"type": "reasoning", "reasoning": part.text}
    if part.signature is not None:
        found["extras"] = {"signature": part.signature}
    return found


def _shown(part: Media) -> Native:
    found: Native = {"type": part.__struct_config__.tag}
    if part.data is not None:
        found["base64"] = part.data
    else:
        found["url"] = convert.as_url(part)
    if part.media_type is not None:
        found["mime_type"] = part.media_type
    return found if part.name is None else {**found, "filename": part.name}
