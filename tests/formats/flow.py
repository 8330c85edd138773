"""What is said in a conversation, whoever wrote it down: the measure of the ring."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ledgerstone.formats.convert import result_parts
from ledgerstone.formats.turns import segments
from ledgerstone.records.messages import Message
from ledgerstone.records.parts import Media, Reasoning, Text, ToolCall, ToolResult


def flow(messages: Iterable[Message]) -> list[tuple[Any, ...]]:
    """Ordered, by role and part; where a message ends does not count."""
    return [(said.role, *_part(part)) for said in segments(messages) for part in said.parts]


def _part(part: Any) -> tuple[Any, ...]:
    if isinstance(part, Text):
        return ("text", part.text)
    if isinstance(part, Reasoning):
        return ("reasoning", part.text)
    if isinstance(part, ToolCall):
        return ("call", part.id, part.name, json.dumps(part.arguments, sort_keys=True))
    if isinstance(part, ToolResult):
        return ("result", part.call_id, part.is_error, _value(part.content))
    if isinstance(part, Media):
        return (type(part).__name__, part.url or part.data)
    return ("other", json.dumps(part, sort_keys=True, default=str))


def _value(content: Any) -> Any:
    """What a tool answered: some formats know only text, and say a value in JSON."""
    parts = result_parts(content)
    if parts is not None:
        return tuple(_part(part) for part in parts)
    if isinstance(content, str):
        try:
            content = json.loads(content)
        except ValueError:
            return content
    return content if isinstance(content, str) else json.dumps(content, sort_keys=True)
