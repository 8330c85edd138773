"""Events of Google's ADK, as Event.model_dump(mode="json", by_alias=True, exclude_none=True) gives.

The author of an event is its message's name. System prompts, for which there is no event, are said
by the author "system". Parts without a word of their own, and signatures that Google did not give,
stand in `customMetadata`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ledgerstone.errors import InvalidValue
from ledgerstone.formats import convert
from ledgerstone.formats.adk_parts import KIND, is_signature, read_part_of, write_part
from ledgerstone.formats.natives import Native
from ledgerstone.formats.turns import Segment, turns, unique_id
from ledgerstone.records.messages import Message, unnamed_message
from ledgerstone.records.parts import AnyPart, Reasoning, ToolCall, ToolResult
from ledgerstone.records.usage import Usage

SILENT, FAILED = "-", "e"
"""Styles: an event without content, one that tells of an error."""

_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "MALFORMED_FUNCTION_CALL": "error",
}
_SPELLED = {ours: theirs for theirs, ours in _REASONS.items()}
_AUTHORS = {"assistant": "model", "system": "system"}
US_PER_S = 1_000_000


class Adk:
    """The format."""

    def read(self, native: Native) -> tuple[Message, str]:
        author, content = native.get("author"), native.get("content")
        if not isinstance(author, str) and not isinstance(content, dict):
            raise InvalidValue(KIND, "an event has an author, or content")
        given = content.get("parts") if isinstance(content, dict) else None
        natives = given if isinstance(given, list) else []
        parts = [convert.part_of(read_part_of, part, KIND) for part in natives]
        role = _role(author, content, parts)
        fields = _fields(native, role)
        parts = _outside(native, parts, fields)
        style = "" if isinstance(given, list) else SILENT
        if isinstance(native.get("errorCode"), str):
            parts.append(_error(native))
            style += FAILED
        if role == "tool" and len(parts) == 1 and isinstance(parts[0], ToolResult):
            fields["tool_call_id"] = parts[0].call_id or None
        return unnamed_message(role, parts, **fields), style

    def write(self, message: Message, style: str) -> Native:
        body = message.body
        parts = message.parts
        shown, extras = convert.apart(parts, KIND)
        found: Native = {"modelVersion": body.model} if body.model is not None else {}
        if SILENT not in style:
            found["content"] = _content([write_part(part) for part in shown], body.role)
        if body.finish_reason in _SPELLED:
            found["finishReason"] = _SPELLED[body.finish_reason]
        if FAILED in style:
            found |= _failure(parts)
        rest = [part for part in extras if not _is_error(part)]
        if rest:
            found["customMetadata"] = {convert.EXTRAS: {"parts": convert.write_extras(rest)}}
        if body.usage is not None:
            found["usageMetadata"] = _counts(body.usage)
        found |= _envelope(_author(message), "", "", 0.0)
        return found

    def render(self, messages: Sequence[Message]) -> list[Native]:
        seen = Counter[str]()
        found = [_rendered(turn) for turn in turns(messages)]
        for event in found:
            event["id"] = unique_id(event["id"], seen)
        return found


FORMAT = Adk()


def _role(author: Any, content: Any, parts: list[AnyPart]) -> str:
    said = content.get("role") if isinstance(content, dict) else None
    if said == "model":
        return "assistant"
    if parts and all(isinstance(part, ToolResult) for part in parts):
        return "tool"
    if author == "system":
        return "system"
    return "user" if author == "user" or said == "user" else "assistant"


def _author(message: Message) -> str:
    name = message.body.name
    return _AUTHORS.get(message.role, "user") if name is None else name


def _fields(native: Native, role: str) -> dict[str, Any]:
    author = convert.text_of(native, "author")
    usual = _AUTHORS.get(role, "user")
    reason = native.get("finishReason")
    fields: dict[str, Any] = {"name": None if author == usual else author}
    fields["model"] = convert.text_of(native, "modelVersion")
    fields["finish_reason"] = _REASONS.get(reason) if isinstance(reason, str) else None
    told = native.get("usageMetadata")
    if isinstance(told, dict):
        fields["usage"] = _usage(told)
    return fields


def _usage(told: Native) -> Usage:
    thoughts = convert.count(told.get("thoughtsTokenCount"))
    return Usage(
        input=convert.count(told.get("promptTokenCount")),
        output=convert.count(told.get("candidatesTokenCount")) + thoughts,
        cached_input=convert.count(told.get("cachedContentTokenCount")),
        reasoning=thoughts,
        total=convert.count(told.get("totalTokenCount")),
    )


def _counts(usage: Usage) -> Native:
    found = {
        "cachedContentTokenCount": usage.cached_input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "promptTokenCount": usage.input,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.total_tokens,
    }
    always = ("candidatesTokenCount", "promptTokenCount", "totalTokenCount")
    return {key: count for key, count in found.items() if count or key in always}


def _outside(native: Native, parts: list[AnyPart], fields: dict[str, Any]) -> list[AnyPart]:
    """The parts with what stands beside the content: others, and signatures."""
    custom = native.get("customMetadata")
    beside = custom.get(convert.EXTRAS) if isinstance(custom, dict) else None
    if not isinstance(beside, dict):
        return parts
    signatures = beside.get("signatures")
    if isinstance(signatures, dict):
        fields["provider"] = convert.text_of(beside, "provider")
        parts = [_signed(part, signatures.get(str(n))) for n, part in enumerate(parts)]
    return parts + convert.read_extras(beside.get("parts"))


def _signed(part: AnyPart, signature: Any) -> AnyPart:
    if isinstance(part, Reasoning) and part.signature is None and isinstance(signature, str):
        return Reasoning(part.text, signature)
    return part


def _error(native: Native) -> dict[str, Any]:
    found = {"type": "error", "code": native["errorCode"]}
    told = convert.text_of(native, "errorMessage")
    return found if told is None else {**found, "message": told}


def _is_error(part: AnyPart) -> bool:
    return isinstance(part, dict) and part.get("type") == "error" and "code" in part


def _failure(parts: list[AnyPart]) -> Native:
    part: Any = next((part for part in parts if _is_error(part)), {})
    found = {"errorCode": part.get("code"), "errorMessage": part.get("message")}
    return {key: value for key, value in found.items() if value is not None}


def _content(parts: list[Any], role: str) -> Native:
    return {"parts": parts, "role": "model" if role == "assistant" else "user"}


def _envelope(author: str, invocation: str, id: str, at: float) -> Native:
    return {
        "invocationId": invocation,
        "author": author,
        "actions": {
            "stateDelta": {},
            "artifactDelta": {},
            "requestedAuthConfigs": {},
            "requestedToolConfirmations": {},
        },
        "nodeInfo": {"path": ""},
        "id": id,
        "timestamp": at,
    }


def _rendered(turn: list[Segment]) -> Native:
    first = turn[0]
    source = first.source
    pairs = [(part, segment) for segment in turn for part in segment.parts]
    shown = [(part, segment) for part, segment in pairs if not convert.is_extra(part, KIND)]
    parts, signatures = _unsigned(shown)
    found: Native = {}
    if first.role == "assistant":
        found = _answered(turn)
    if parts:
        found["content"] = _content([write_part(_ready(part)) for part in parts], first.role)
    beside: Native = {}
    rest = [part for part, _ in pairs if convert.is_extra(part, KIND)]
    if rest:
        beside["parts"] = convert.write_extras(rest)
    if signatures:
        beside |= {"signatures": signatures}
        if first.signer is not None:
            beside["provider"] = first.signer
    if beside:
        found["customMetadata"] = {convert.EXTRAS: beside}
    usual = _AUTHORS.get(first.role, "user")
    author = source.body.name if first.role == source.role else None
    at = source.created_us / US_PER_S
    return {**found, **_envelope(author or usual, source.run_id or "", source.id, at)}


def _answered(turn: list[Segment]) -> Native:
    found: Native = {}
    for segment in turn:
        body = segment.source.body
        if body.model is not None:
            found.setdefault("modelVersion", body.model)
        if body.usage is not None:
            found.setdefault("usageMetadata", _counts(body.usage))
        if body.finish_reason in _SPELLED:
            found["finishReason"] = _SPELLED[body.finish_reason]
    return found


def _unsigned(pairs: list[tuple[AnyPart, Segment]]) -> tuple[list[AnyPart], dict[str, str]]:
    """Parts with only such signatures as Google gave, and the others by their place."""
    parts: list[AnyPart] = []
    others: dict[str, str] = {}
    for n, (part, segment) in enumerate(pairs):
        if isinstance(part, Reasoning) and part.signature and not _is_googles(part, segment):
            others[str(n)] = part.signature
            parts.append(Reasoning(part.text))
        else:
            parts.append(part)
    return parts, others


def _is_googles(part: Reasoning, segment: Segment) -> bool:
    return segment.signer in (None, "google") and is_signature(part.signature or "")


def _ready(part: AnyPart) -> AnyPart:
    """Calls with objects, which are all that an event takes."""
    if isinstance(part, ToolCall):
        return ToolCall(part.id, part.name, convert.as_object(part.arguments))
    if isinstance(part, ToolResult) and part.name is None:
        return ToolResult(part.call_id, part.content, "tool", part.is_error)
    return part
