"""Messages of LangChain, in the form of langchain_core.messages.message_to_dict: {"type", "data"}.

Blocks of content are read in the spellings of LangChain's own standard, of OpenAI and of Anthropic,
since its messages carry all of them; parts that it has no word for stand in `additional_kwargs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ledgerstone.errors import InvalidValue
from ledgerstone.formats import convert
from ledgerstone.formats.langchain_blocks import (
    CALLED,
    FUNCTIONS,
    LISTED,
    USES,
    read_blocks,
    write_block,
)
from ledgerstone.formats.natives import Native
from ledgerstone.formats.turns import Segment, turns, unique_id
from ledgerstone.records.messages import (
    FINISH_REASONS,
    FOREIGN_ROLES,
    ROLES,
    Message,
    unnamed_message,
)
from ledgerstone.records.parts import AnyPart, Audio, Reasoning, Text, ToolCall, ToolResult
from ledgerstone.records.usage import Usage

ANSWERED = "m"
"""The style of an answer whose response_metadata name the model or the reason it ended."""

_KIND = "langchain"
_TYPES = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "SystemMessageChunk": "system",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "function": "tool",
    "FunctionMessageChunk": "tool",
    "remove": "system",
}
_USUAL = {"user": "human", "assistant": "ai", "system": "system", "tool": "tool"}


class LangChain:
    """The format."""

    def read(self, native: Native) -> tuple[Message, str]:
        kind, data = native.get("type"), native.get("data")
        if not isinstance(kind, str) or not isinstance(data, dict):
            raise InvalidValue(_KIND, 'a message is {"type": text, "data": object}')
        role = _role(kind, data)
        fields: dict[str, Any] = {"name": convert.text_of(data, "name")}
        if role == "tool":
            parts, flags = _read_result(data, fields)
        else:
            parts, flags = _read_content(data)
        if role == "assistant":
            flags += _read_answer(data, parts, fields)
        parts += convert.read_extras(_object(data, "additional_kwargs").get(convert.EXTRAS))
        style = flags if _USUAL[role] == kind else f"{kind}:{flags}"
        return unnamed_message(role, parts, **fields), style

    def write(self, message: Message, style: str) -> Native:
        kind, colon, flags = style.rpartition(":")
        return _written(message, kind if colon else _USUAL[message.role], flags)

    def render(self, messages: Sequence[Message]) -> list[Native]:
        seen = Counter[str]()
        found = [one for turn in turns(messages) for one in _rendered(turn)]
        for one in found:
            one["data"]["id"] = unique_id(one["data"]["id"], seen)
        return found


FORMAT = LangChain()


def _role(kind: str, data: Native) -> str:
    role = _TYPES.get(kind)
    if role is None:
        said = data.get("role")
        role = FOREIGN_ROLES.get(said, said) if isinstance(said, str) else "user"
    return role if role in ROLES else "user"


def _object(data: Native, key: str) -> Native:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def _read_content(data: Native) -> tuple[list[AnyPart], str]:
    content = data.get("content")
    thought = _thought(_object(data, "additional_kwargs"))
    first: list[AnyPart] = [Reasoning(thought)] if thought else []
    if isinstance(content, list):
        parts, flags = read_blocks(content)
        return [*first, *parts], flags
    return [*first, Text(content)] if isinstance(content, str) and content else first, ""


def _thought(beside: Native) -> str:
    """Reasoning beside the content, in the two forms that integrations have for it."""
    if isinstance(beside.get("reasoning_content"), str):
        found: str = beside["reasoning_content"]
        return found
    summary = _object(beside, "reasoning").get("summary")
    told = summary if isinstance(summary, list) else []
    texts = [one.get("text") for one in told if isinstance(one, dict)]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _read_result(data: Native, fields: dict[str, Any]) -> tuple[list[AnyPart], str]:
    call = convert.text_of(data, "tool_call_id")
    content, flags = data.get("content"), ""
    if isinstance(content, list):
        parts, found = read_blocks(content)
        if parts and convert.result_parts(convert.result_content(parts)) is not None:
            content, flags = convert.result_content(parts), found
    if call:
        fields["tool_call_id"] = call
    failed = data.get("status") == "error"
    return [ToolResult(call or "", content, fields.pop("name"), failed)], flags


def _read_answer(data: Native, parts: list[AnyPart], fields: dict[str, Any]) -> str:
    """The calls of an answer, and what is told about it."""
    known = {part.id for part in parts if isinstance(part, ToolCall)}
    parts += _beside(_object(data, "additional_kwargs"))
    for key in ("tool_calls", "invalid_tool_calls"):
        calls = data.get(key)
        for call in calls if isinstance(calls, list) else []:
            part = convert.part_of(_read_call, call, "langchain-call")
            if isinstance(part, ToolCall) and not (part.id and part.id in known):
                parts.append(part)
    if not any(isinstance(part, ToolCall) for part in parts):
        parts += _read_function(_object(data, "additional_kwargs"))
    told = _object(data, "response_metadata")
    reason = told.get("finish_reason")
    fields["model"] = convert.text_of(told, "model_name")
    fields["finish_reason"] = reason if reason in FINISH_REASONS else None
    fields["provider"] = convert.text_of(told, "model_provider") or _signed_by(data)
    if isinstance(data.get("usage_metadata"), dict):
        fields["usage"] = _usage(data["usage_metadata"])
    return ANSWERED if fields["model"] or fields["finish_reason"] else ""


def _beside(beside: Native) -> list[AnyPart]:
    """What chat completions say beside the content, and LangChain does not put into it."""
    found: list[AnyPart] = []
    if isinstance(beside.get("refusal"), str) and beside["refusal"]:
        found.append(Text(beside["refusal"]))
    audio = _object(beside, "audio")
    if isinstance(audio.get("data"), str):
        transcript = convert.text_of(audio, "transcript")
        found.append(Audio(data=audio["data"], transcript=transcript))
    return found


def _read_function(beside: Native) -> list[AnyPart]:
    """A call of old; integrations that tell of it beside the calls are not asked."""
    function = _object(beside, "function_call")
    if not isinstance(function.get("name"), str):
        return []
    return [ToolCall("", function["name"], convert.arguments_of(function.get("arguments")))]


def _read_call(call: Any) -> AnyPart:
    return ToolCall(call.get("id") or "", call.get("name") or "", call["args"])


def _signed_by(data: Native) -> str | None:
    """Who signed the reasoning of an answer that does not say who gave it."""
    content = data.get("content")
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict):
            if block.get("type") in ("thinking", "redacted_thinking"):
                return "anthropic"
            if block.get("type") == "reasoning" and "encrypted_content" in block:
                return "openai"
    return None


def _usage(told: Native) -> Usage:
    details, more = _object(told, "input_token_details"), _object(told, "output_token_details")
    total = convert.count(told.get("total_tokens"))
    return Usage(
        convert.count(told.get("input_tokens")),
        convert.count(told.get("output_tokens")),
        convert.count(details.get("cache_read")),
        convert.count(details.get("cache_creation")),
        convert.count(more.get("reasoning")),
        total,
    )


def _told(usage: Usage | None) -> Native | None:
    if usage is None:
        return None
    found: Native = {
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "total_tokens": usage.total_tokens,
    }
    if usage.cache_write or usage.cached_input:
        given = {"cache_creation": usage.cache_write, "cache_read": usage.cached_input}
        found["input_token_details"] = {key: count for key, count in given.items() if count}
    if usage.reasoning:
        found["output_token_details"] = {"reasoning": usage.reasoning}
    return found


def _written(message: Message, kind: str, flags: str) -> Native:
    body = message.body
    parts = message.parts
    answer = parts[0] if parts else None
    if isinstance(answer, ToolResult):
        data = _data(kind, answer.name, None)
        data["content"] = _answer(answer, flags)
        if kind in ("tool", "ToolMessageChunk"):
            data |= _result_fields(answer)
        return {"type": kind, "data": data}
    data = _data(kind, body.name, None)
    calls = [part for part in parts if isinstance(part, ToolCall)]
    spoken, rest = convert.apart(parts, _KIND)
    if calls and not any(flag in flags for flag in (USES, CALLED, FUNCTIONS)):
        spoken = [part for part in spoken if not isinstance(part, ToolCall)]
    data["content"] = _content(spoken, body.provider, flags)
    if rest:
        data["additional_kwargs"] = {convert.EXTRAS: convert.write_extras(rest)}
    if kind in ("ai", "AIMessageChunk"):
        if ANSWERED in flags:
            data["response_metadata"] = _answered(message)
        data |= _answer_fields(calls, body.usage)
        if kind == "AIMessageChunk":
            chunks = [_chunk(n, call) for n, call in enumerate(calls)]
            data |= {"tool_call_chunks": chunks, "chunk_position": None}
    elif kind not in _TYPES:
        data["role"] = body.origin_role or body.role
    return {"type": kind, "data": data}


def _data(kind: str, name: str | None, id: str | None) -> Native:
    return {
        "content": "",
        "additional_kwargs": {},
        "response_metadata": {},
        "type": kind,
        "name": name,
        "id": id,
    }


def _content(parts: list[AnyPart], provider: str | None, flags: str) -> Any:
    if LISTED in flags:
        return [write_block(part, provider, flags) for part in parts]
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return "".join([part.text for part in parts if isinstance(part, Text)])


def _answer(part: ToolResult, flags: str) -> Any:
    parts = convert.result_parts(part.content) if LISTED in flags else None
    if parts is None:
        return part.content
    return [write_block(one, None, flags) for one in parts]


def _result_fields(part: ToolResult) -> Native:
    status = "error" if part.is_error else "success"
    return {"tool_call_id": part.call_id, "artifact": None, "status": status}


def _answer_fields(calls: list[ToolCall], usage: Usage | None) -> Native:
    good: list[Native] = []
    bad: list[Native] = []
    for one in calls:
        id, name, args = one.id, one.name, one.arguments
        if isinstance(args, dict):
            good.append({"name": name, "args": args, "id": id, "type": "tool_call"})
        else:
            said = {"type": "invalid_tool_call", "id": id, "name": name, "args": args}
            bad.append({**said, "error": None})
    return {"tool_calls": good, "invalid_tool_calls": bad, "usage_metadata": _told(usage)}


def _chunk(n: int, call: ToolCall) -> Native:
    arguments = convert.as_text(call.arguments)
    found = {"name": call.name, "args": arguments, "id": call.id, "index": n}
    return {**found, "type": "tool_call_chunk"}


def _answered(message: Message) -> Native:
    body = message.body
    known = {
        "finish_reason": body.finish_reason,
        "model_name": body.model,
        "model_provider": body.provider,
    }
    return {key: value for key, value in known.items() if value is not None}


def _rendered(turn: list[Segment]) -> list[Native]:
    first = turn[0]
    id = first.source.id or None
    if first.role == "tool":
        return [
            _rendered_result(part, segment.source.id or None)
            for segment in turn
            for part in segment.parts
            if isinstance(part, ToolResult)
        ]
    kind = _USUAL[first.role]
    data = _data(kind, first.source.body.name, id)
    pairs = [(part, segment.signer) for segment in turn for part in segment.parts]
    spoken = [
        pair
        for pair in pairs
        if not isinstance(pair[0], ToolCall) and not convert.is_extra(pair[0], _KIND)
    ]
    if len(spoken) == 1 and isinstance(spoken[0][0], Text):
        data["content"] = spoken[0][0].text
    elif spoken:
        data["content"] = [write_block(part, provider, LISTED) for part, provider in spoken]
    rest = [part for part, _ in pairs if convert.is_extra(part, _KIND)]
    if rest:
        data["additional_kwargs"] = {convert.EXTRAS: convert.write_extras(rest)}
    if kind == "ai":
        data |= _rendered_answer(turn)
    return [{"type": kind, "data": data}]


def _rendered_answer(turn: list[Segment]) -> Native:
    calls = [
        call
        if isinstance(call.arguments, str) and call.arguments
        else ToolCall(call.id, call.name, convert.as_object(call.arguments))
        for segment in turn
        for call in segment.parts
        if isinstance(call, ToolCall)
    ]
    sources = list({id(segment.source): segment.source for segment in turn}.values())
    usage = next((one.usage for one in sources if one.usage is not None), None)
    found = _answer_fields(calls, usage)
    told = [_answered(one) for one in sources]
    signer = next((segment.signer for segment in turn if segment.signer), None)
    metadata = {"model_provider": signer} if signer and _is_signed(turn) else {}
    for one in told:
        metadata |= one
    return {**found, "response_metadata": metadata}


def _is_signed(turn: list[Segment]) -> bool:
    parts = [part for segment in turn for part in segment.parts]
    return any(isinstance(part, Reasoning) and part.signature for part in parts)


def _rendered_result(part: ToolResult, id: str | None) -> Native:
    data = _data("tool", part.name, id)
    parts = convert.result_parts(part.content)
    if parts is None:
        data["content"] = "" if part.content is None else convert.as_text(part.content)
    else:
        data["content"] = [write_block(one, None, LISTED) for one in parts]
    return {"type": "tool", "data": {**data, **_result_fields(part)}}
