"""Messages of Pydantic AI, as ModelMessagesTypeAdapter writes them: requests and responses.

A request may hold system prompts, prompts of the user and results of tools at once. It is a message
of the user then, in which the prompts of the system are parts of their own; the instructions that
go with a request are such a part too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from ledgerstone.clock import to_datetime
from ledgerstone.errors import InvalidValue
from ledgerstone.formats import convert
from ledgerstone.formats.natives import Native
from ledgerstone.formats.pydantic_ai_parts import (
    RequestReader,
    read_response_part,
    system_prompt,
    tool_return,
    user_prompt,
    write_request_parts,
    write_response_part,
)
from ledgerstone.formats.turns import Segment, is_system, turns
from ledgerstone.records.messages import Message, unnamed_message
from ledgerstone.records.parts import AnyPart, Media, Reasoning, Text, ToolCall, ToolResult
from ledgerstone.records.usage import Usage

TEXT_ARGUMENTS, NAMED = "a", "n"
"""Styles of a response: calls have their arguments as text; the model has an id, since 2.66."""

_KIND = "pydantic-ai"
_REASONS = {"tool_call": "tool_calls"}
_SPELLED = {"tool_calls": "tool_call"}
_COUNTS = {
    "input_tokens": "input",
    "cache_write_tokens": "cache_write",
    "cache_read_tokens": "cached_input",
    "output_tokens": "output",
    "output_reasoning_tokens": "reasoning",
}
_NO_COUNTS = dict.fromkeys(
    (
        *("input_tokens", "cache_write_tokens", "cache_write_1h_tokens", "cache_read_tokens"),
        *("output_tokens", "output_reasoning_tokens"),
        *("input_audio_tokens", "cache_audio_read_tokens", "output_audio_tokens"),
    ),
    0,
)
_REQUEST_EMPTY = dict.fromkeys(("run_id", "conversation_id", "metadata"))
_RESPONSE_EMPTY = dict.fromkeys(
    (
        *("provider_name", "provider_url", "provider_details", "provider_response_id"),
        *("finish_reason", "run_id", "conversation_id", "metadata"),
        *("workspace_ref", "history_digest", "failed_attempts"),
    )
)
_NAMES = {"model_name": "model_id", "provider_url": "canonical_system"}
_NO_USAGE = Usage()


class PydanticAI:
    """The format."""

    def read(self, native: Native) -> tuple[Message, str]:
        kind, parts = native.get("kind"), native.get("parts")
        if kind not in ("request", "response") or not isinstance(parts, list):
            raise InvalidValue(_KIND, 'a message has a kind, "request" or "response", and parts')
        return _read_request(native) if kind == "request" else _read_response(native)

    def write(self, message: Message, style: str) -> Native:
        if message.role == "assistant":
            return _response(message, style)
        return _request(message, style)

    def render(self, messages: Sequence[Message]) -> list[Native]:
        found: list[Native] = []
        for answers, group in groupby(turns(messages), lambda turn: turn[0].role == "assistant"):
            if answers:
                found += [_rendered_response(turn) for turn in group]
            else:
                found.append(_rendered_request([segment for turn in group for segment in turn]))
        return found


FORMAT = PydanticAI()


def _read_request(native: Native) -> tuple[Message, str]:
    reader = RequestReader(native)
    fields: dict[str, Any] = {}
    rest = _from_metadata(native)
    if reader.role == "tool" and len(reader.parts) == 1:
        fields["tool_call_id"] = reader.parts[0].call_id  # type: ignore[union-attr]
    return unnamed_message(reader.role, [*reader.parts, *rest], **fields), reader.style


def _read_response(native: Native) -> tuple[Message, str]:
    parts = [convert.part_of(read_response_part, part, _KIND) for part in native["parts"]]
    fields: dict[str, Any] = {"model": convert.text_of(native, "model_name")}
    reason = convert.text_of(native, "finish_reason")
    fields["finish_reason"] = _REASONS.get(reason or "", reason)
    fields["provider"] = convert.text_of(native, "provider_name") or _signed_by(native)
    usage = native.get("usage")
    if isinstance(usage, dict) and any(convert.count(usage.get(key)) for key in _COUNTS):
        fields["usage"] = Usage(
            **{ours: convert.count(usage.get(theirs)) for theirs, ours in _COUNTS.items()}
        )
    parts += _from_metadata(native)
    texts = [one.get("args") for one in native["parts"] if isinstance(one, dict)]
    style = TEXT_ARGUMENTS if any(isinstance(one, str) for one in texts) else ""
    return unnamed_message("assistant", parts, **fields), style + (
        NAMED if "model_id" in native else ""
    )


def _from_metadata(native: Native) -> list[AnyPart]:
    metadata = native.get("metadata")
    return convert.read_extras(metadata.get(convert.EXTRAS)) if isinstance(metadata, dict) else []


def _signed_by(native: Native) -> str | None:
    """Who gave the thoughts of a response that does not say who gave it."""
    for part in native["parts"]:
        if isinstance(part, dict) and part.get("part_kind") == "thinking":
            found = convert.text_of(part, "provider_name")
            if found:
                return found
    return None


def _request(message: Message, style: str) -> Native:
    parts, instructions = write_request_parts(message.parts, style)
    found = _request_of(parts, instructions)
    rest = [part for part in message.parts if convert.is_extra(part, _KIND) and not is_system(part)]
    return _with_rest(found, rest)


def _request_of(
    parts: list[Native], instructions: str | None = None, at: str | None = None
) -> Native:
    return {
        "parts": parts,
        "timestamp": at,
        "instructions": instructions,
        "kind": "request",
        **_REQUEST_EMPTY,
        "state": "complete",
    }


def _response(message: Message, style: str) -> Native:
    body = message.body
    given = message.parts
    answered = {part.call_id for part in given if isinstance(part, ToolResult)}
    spoken, rest = convert.apart(given, _KIND)
    as_text = TEXT_ARGUMENTS in style
    parts = [write_response_part(part, body.provider, as_text, answered) for part in spoken]
    found = _response_of(parts, body.usage or _NO_USAGE)
    found["model_name"] = body.model
    found["provider_name"] = body.provider
    found["finish_reason"] = _SPELLED.get(body.finish_reason or "", body.finish_reason)
    return _with_rest(_with_names(found) if NAMED in style else found, rest)


def _with_names(response: Native) -> Native:
    """A response with the fields that 2.66 brought, where they stand in it."""
    found: Native = {}
    for key, value in response.items():
        found[key] = value
        if key in _NAMES:
            found[_NAMES[key]] = None
    return found


def _response_of(parts: list[Native], usage: Usage) -> Native:
    used: Native = {
        **_NO_COUNTS,
        "input_tokens": usage.input,
        "cache_write_tokens": usage.cache_write,
        "cache_read_tokens": usage.cached_input,
        "output_tokens": usage.output,
        "output_reasoning_tokens": usage.reasoning,
        "audio_seconds": 0.0,
        "details": {},
        "cost": None,
    }
    return {
        "parts": parts,
        "usage": used,
        "model_name": None,
        "timestamp": "",
        "kind": "response",
        **_RESPONSE_EMPTY,
        "state": "complete",
    }


def _with_rest(found: Native, rest: list[AnyPart]) -> Native:
    return {**found, "metadata": {convert.EXTRAS: convert.write_extras(rest)}} if rest else found


def _rendered_request(pieces: list[Segment]) -> Native:
    """Everything that was said between two answers is one request."""
    parts: list[Native] = []
    rest: list[AnyPart] = []
    for segment in pieces:
        at = _time(segment.source)
        if segment.role == "tool":
            results = [part for part in segment.parts if isinstance(part, ToolResult)]
            parts += [tool_return(part, at) for part in results]
            continue
        spoken, extras = convert.apart(segment.parts, _KIND)
        rest += extras
        if segment.role == "system":
            parts += [system_prompt(convert.part_as_text(part), at) for part in spoken]
        elif spoken:
            plain = len(spoken) == 1 and isinstance(spoken[0], Text)
            parts.append(user_prompt(spoken, at, listed=not plain))
    return _with_rest(_request_of(parts, at=_time(pieces[0].source)), rest)


def _rendered_response(turn: list[Segment]) -> Native:
    sources = list({id(segment.source): segment.source for segment in turn}.values())
    pairs = [(part, segment) for segment in turn for part in segment.parts]
    parts = [
        write_response_part(
            _called(part), segment.source.body.provider or segment.signer, False, set()
        )
        for part, segment in pairs
        if _is_shown(part)
    ]
    usage = next((one.usage for one in sources if one.usage is not None), _NO_USAGE)
    found = _response_of(parts, usage)
    for one in sources:
        found["model_name"] = found["model_name"] or one.body.model
        found["provider_name"] = found["provider_name"] or one.body.provider
    reason = sources[-1].body.finish_reason
    found["finish_reason"] = _SPELLED.get(reason or "", reason)
    if found["finish_reason"] not in ("stop", "length", "content_filter", "tool_call", "error"):
        found["finish_reason"] = None
    found["timestamp"] = _time(sources[-1])
    if found["timestamp"] is None:
        del found["timestamp"]
    return _with_rest(found, [part for part, _ in pairs if not _is_shown(part)])


def _is_shown(part: AnyPart) -> bool:
    """Whether a response has a word for it: it can hold bytes, but no urls."""
    if isinstance(part, Media):
        return part.data is not None
    return not convert.is_extra(part, _KIND) or isinstance(part, Reasoning | ToolCall)


def _called(part: AnyPart) -> AnyPart:
    if isinstance(part, ToolCall) and not isinstance(part.arguments, str | dict):
        return ToolCall(part.id, part.name, convert.as_object(part.arguments))
    return part


def _time(message: Message) -> str | None:
    if not message.created_us:
        return None
    return to_datetime(message.created_us).isoformat().replace("+00:00", "Z")
