"""A conversation as formats want to show it: who says what, calls and results with their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

from msgspec.structs import replace

from ledgerstone.formats.convert import normalized, signer
from ledgerstone.records.messages import Message, Role
from ledgerstone.records.parts import AnyPart, Audio, Text, ToolCall, ToolResult

SYSTEM = "system"
"""A part of this type is a system prompt inside a message of another role."""


class Segment(NamedTuple):
    """What one message says in one role."""

    role: Role
    parts: list[AnyPart]
    source: Message

    @property
    def signer(self) -> str | None:
        return signer(self.source)


def system_part(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": SYSTEM, "text": text, **fields}


def is_system(part: AnyPart) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == SYSTEM and isinstance(part.get("text"), str)
    )


def segments(messages: Iterable[Message]) -> Iterator[Segment]:
    """Each message in pieces of one role; empty ones say nothing."""
    shown: set[str] = set()
    for message in messages:
        for role, group in groupby(_parts(message), partial(_role, message)):
            parts = [one for part in group for one in _with_transcript(normalized(part))]
            if role == "system" and message.role != "system":
                parts = _new_prompts(parts, shown)
            if parts:
                yield Segment(role, parts, message)


def turns(messages: Sequence[Message]) -> list[list[Segment]]:
    """What belongs into one message of the usual formats.

    The items of one answer, kept one by one, are joined; so are results that follow one another.
    """
    found: list[list[Segment]] = []
    for segment in segments(messages):
        if found and _joins(found[-1][-1], segment):
            found[-1].append(segment)
        else:
            found.append([segment])
    return found


def unique_id(id: str | None, seen: Counter[str]) -> str | None:
    """An id for one of several natives that a message becomes: the first has the message's own."""
    if not id:
        return id
    seen[id] += 1
    return id if seen[id] == 1 else f"{id}:{seen[id]}"


def paired(messages: Sequence[Message], skip: Iterable[bool]) -> list[Message]:
    """Results with the names of their calls, and calls that had no id with one.

    Messages to skip are looked at, but stay as they are.
    """
    pairs = _Pairs(call.id for one in messages for call in one.tool_calls)
    return [
        _with(message, [pairs.completed(part, fixed) for part in message.parts], fixed)
        for message, fixed in zip(messages, skip, strict=True)
    ]


class _Pairs:
    """Names and ids of the calls so far."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        self._unnamed: list[tuple[str, str]] = []
        self._taken = set(taken)
        self._count = 0

    def completed(self, part: AnyPart, fixed: bool) -> AnyPart:
        if isinstance(part, ToolCall):
            if not part.id and not fixed:
                part = replace(part, id=self._fresh())
                self._unnamed.append((part.name, part.id))
            self._names[part.id] = part.name
        elif isinstance(part, ToolResult) and not fixed:
            if not part.call_id:
                part = replace(part, call_id=self._next(part.name))
            if part.name is None:
                part = replace(part, name=self._names.get(part.call_id))
        return part

    def _next(self, name: str | None) -> str:
        for n, (called, id) in enumerate(self._unnamed):
            if name in (None, called):
                del self._unnamed[n]
                return id
        return self._fresh()

    def _fresh(self) -> str:
        """An id that no call of the conversation has."""
        while True:
            self._count += 1
            if (id := f"call_{self._count}") not in self._taken:
                return id


def _with(message: Message, parts: list[AnyPart], fixed: bool) -> Message:
    if fixed or all(one is other for one, other in zip(parts, message.parts, strict=True)):
        return message
    return replace(message, body=replace(message.body, parts=parts))


def _parts(message: Message) -> list[AnyPart]:
    """The parts; a tool's text, when it says only outside of its parts what it answers, is one."""
    call = message.body.tool_call_id
    if message.role != "tool" or not call or _has_result(message):
        return message.parts
    texts = [part for part in message.parts if isinstance(part, Text)]
    result = ToolResult(call, message.text, message.body.tool_name)
    return [result, *(part for part in message.parts if part not in texts)]


def _has_result(message: Message) -> bool:
    return any(isinstance(part, ToolResult) for part in message.parts)


def _with_transcript(part: AnyPart) -> list[AnyPart]:
    """What is said in audio is text too, for those that do not listen."""
    if isinstance(part, Audio) and part.transcript:
        return [Text(part.transcript), replace(part, transcript=None)]
    return [part]


def _role(message: Message, part: AnyPart) -> Role:
    if isinstance(part, ToolResult):
        return "tool"
    if is_system(part):
        return "system"
    return "user" if message.role == "tool" else message.role


def _new_prompts(parts: list[AnyPart], shown: set[str]) -> list[AnyPart]:
    """System prompts that were not shown before: some formats repeat them with every request."""
    fresh = [Text(part["text"]) for part in parts if isinstance(part, dict)]
    found: list[AnyPart] = [part for part in fresh if part.text not in shown]
    shown.update(part.text for part in fresh)
    return found


def _joins(before: Segment, segment: Segment) -> bool:
    if before.role != segment.role:
        return False
    if segment.role == "tool":
        return True
    if segment.role != "assistant" or before.source.body.name != segment.source.body.name:
        return False
    return _item_wise(before.source) or _item_wise(segment.source)


def _item_wise(message: Message) -> bool:
    mark = (message.body.extra or {}).get("native")
    return isinstance(mark, list) and mark[:1] == ["openai"]
