"""What of a conversation is sent to a model: pruned and cut to fit, calls kept with results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone.errors import InvalidValue
from ledgerstone.records.context import Context, ContextRows, Prune
from ledgerstone.records.messages import Message
from ledgerstone.records.parts import Code, Media, Reasoning, Text, ToolCall, ToolResult

"""Compaction messages carry this label, so that the newest one is found without reading all."""

CHARS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
TOKENS_PER_MEDIA = 1_000

Count = Callable[[Message], int]


def estimate(message: Message) -> int:
    """About how many tokens a message takes: a quarter of its characters, and a little.

    An estimate for text in western languages. Media count as a flat thousand. Who knows the model
    hands in the count of its tokenizer instead.
    """
    sizes = [_size(part) for part in message.parts]
    media = sum(isinstance(part, Media) for part in message.parts)
    return sum(sizes) // CHARS_PER_TOKEN + TOKENS_PER_MESSAGE + media * TOKENS_PER_MEDIA


def _size(part: Any) -> int:
    """The characters of one part."""
    if isinstance(part, Text | Reasoning):
        return len(part.text)
    if isinstance(part, Code):
        return len(part.code)
    if isinstance(part, ToolCall):
        return len(part.name) + _json_size(part.arguments)
    if isinstance(part, ToolResult):
        return _json_size(part.content)
    return 0 if isinstance(part, Media) else _json_size(part)


def _json_size(value: Any) -> int:
    if value is None or isinstance(value, str):
        return len(value or "")
    try:
        return len(msgspec.json.encode(value))
    except UnicodeEncodeError:  # Half a character, which a message may well hold.
        return len(str(msgspec.to_builtins(value)))


class _Kept:
    """Messages beside what each of them takes."""

    def __init__(self, messages: Sequence[Message], count: Count) -> None:
        self.messages = list(messages)
        self.tokens = [_counted(message, count) for message in messages]

    def total(self) -> int:
        return sum(self.tokens)


def _counted(message: Message, count: Count) -> int:
    tokens = count(message)
    if type(tokens) is not int or tokens < 0:
        raise InvalidValue("count", f"it must answer a count of tokens, not {tokens!r:.40}")
    return tokens


def build(
    rows: ContextRows,
    *,
    keep_system: bool = True,
    prune: Prune | None = None,
    budget_tokens: int | None = None,
    count: Count = estimate,
) -> Context:
    """The context of what was read; InvalidValue when it cannot be made to fit."""
    system, tail, orphans = rows.system, rows.tail, 0
    if tail and (rows.summary is None or tail[0].parent is None):
        system = list(takewhile(_is_system, tail))
        tail = tail[len(system) :]
    if rows.summary is not None:
        tail = [one for one in tail if not (one.body.is_compaction or one.body.is_summary)]
        # No model takes results alone, and the summary speaks of them and of their calls.
        orphans = len(list(takewhile(answers_of, tail)))
        tail = tail[orphans:]
    above = _Kept(
        [*(system if keep_system else ()), *([rows.summary] if rows.summary else ())], count
    )
    below = _Kept(tail, count)
    pruned = [] if prune is None else _prune(below, prune, count)
    dropped = 0
    if budget_tokens is not None:
        dropped = _drop(below, budget_tokens, above.total())
    dropped += orphans
    return Context(
        messages=above.messages + below.messages,
        summary=rows.summary,
        compaction=rows.request if rows.summary is not None else None,
        tokens=above.total() + below.total(),
        pruned=pruned,
        dropped=dropped,
        complete=not pruned and not dropped,
    )


def _is_system(message: Message) -> bool:
    return message.role == "system"


def calls_of(message: Message) -> list[str]:
    """The ids of the tool calls that a message makes."""
    return [call.id for call in message.tool_calls]


def answers_of(message: Message) -> list[str]:
    """The ids of the tool calls that a message answers."""
    found = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
    if not found and message.role == "tool" and message.body.tool_call_id:
        return [message.body.tool_call_id]
    return found


def _prune(kept: _Kept, prune: Prune, count: Count) -> list[str]:
    """Replace old tool outputs when it is worth it; answers the ids of those messages."""
    names = {call.id: call.name for one in kept.messages for call in one.tool_calls}
    younger, saved = 0, 0
    found: dict[int, tuple[Message, int]] = {}
    for n in range(len(kept.messages) - 1, -1, -1):
        message, tokens = kept.messages[n], kept.tokens[n]
        if younger >= prune.protect_tokens:
            shorter = _shortened(message, prune, names)
            if shorter is not message:
                left = _counted(shorter, count)
                if left < tokens:
                    found[n] = (shorter, left)
                    saved += tokens - left
        younger += tokens
    if not found or saved < prune.min_saved_tokens:
        return []
    for n, (shorter, left) in found.items():
        kept.messages[n], kept.tokens[n] = shorter, left
    return [kept.messages[n].id for n in sorted(found)]


def _shortened(message: Message, prune: Prune, names: dict[str, str]) -> Message:
    """The message with the placeholder for its tool outputs; itself when it has none."""
    body = message.body
    if not any(isinstance(part, ToolResult) for part in body.parts):
        name = body.tool_name or names.get(body.tool_call_id or "")
        if message.role != "tool" or name in prune.keep_tools or not body.parts:
            return message
        return replace(message, body=replace(body, parts=[Text(prune.placeholder)]))
    parts = [_emptied(part, body.tool_name, prune, names) for part in body.parts]
    return message if parts == body.parts else replace(message, body=replace(body, parts=parts))


def _emptied(part: Any, tool_name: str | None, prune: Prune, names: dict[str, str]) -> Any:
    """The part, a tool's output without its content."""
    if not isinstance(part, ToolResult):
        return part
    name = part.name or tool_name or names.get(part.call_id)
    return part if name in prune.keep_tools else replace(part, content=prune.placeholder)


def _drop(kept: _Kept, budget_tokens: int, above: int) -> int:
    """Leave out the oldest messages until the rest fits; answers how many.

    System messages and the newest message stay. InvalidValue when even that is too much.
    """
    left = above + kept.total()
    if left <= budget_tokens:
        return 0
    gone: list[int] = []
    for at in _cuts(kept.messages):
        for n in range(gone[-1] + 1 if gone else 0, at):
            if not _is_system(kept.messages[n]):
                left -= kept.tokens[n]
            gone.append(n)
        if left <= budget_tokens:
            break
    else:
        raise InvalidValue("budget_tokens", f"{left} are needed at least, {budget_tokens} given")
    lost = {n for n in gone if not _is_system(kept.messages[n])}
    kept.messages = [one for n, one in enumerate(kept.messages) if n not in lost]
    kept.tokens = [one for n, one in enumerate(kept.tokens) if n not in lost]
    return len(lost)


def _cuts(messages: Sequence[Message]) -> list[int]:
    """Where a list may be cut so that no result loses its call; never after the newest."""
    asked: dict[str, int] = {}
    ends = [0] * len(messages)
    for n, message in enumerate(messages):
        asked.update((call, n) for call in calls_of(message))
        for call in answers_of(message):
            if call in asked:
                ends[asked[call]] = n
    found, closed = [], 0
    for n in range(len(messages) - 1):
        closed = max(closed, ends[n])
        # A call that came in a form of its own is not known here; its results still follow it.
        if closed <= n and not answers_of(messages[n + 1]):
            found.append(n + 1)
    return found
