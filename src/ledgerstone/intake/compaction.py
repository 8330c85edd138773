"""Compactions and contexts as callers ask for them."""

from __future__ import annotations

from typing import Any

from ledgerstone import ids
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.records.context import Context, Prune
from ledgerstone.records.messages import Compaction, Message, assistant, user

INSTRUCTION = "Summarise the conversation so far."


def compaction_pair(
    summary: object, tail_start: Any, previous: Any, instruction: object, fields: dict[str, Any]
) -> tuple[Message, Message]:
    """The request and its summary; both remember where the tail starts and what came before."""
    if not isinstance(summary, str):
        raise InvalidValue("summary", f"text expected, got {type(summary).__name__}")
    if not isinstance(instruction, str):
        raise InvalidValue("instruction", f"text expected, got {type(instruction).__name__}")
    for name in ("is_summary", "compaction", "parts"):
        if name in fields:
            raise InvalidValue(name, "this field of a summary is the store's")
    if isinstance(previous, Context):
        previous = previous.compaction
    start = checks.maybe_id(tail_start, "tail_start")
    before = checks.maybe_id(previous, "previous")
    request = user(instruction, is_compaction=True, compaction=Compaction(start, before, None))
    meta = Compaction(start, before, summary)
    return request, assistant(summary, is_summary=True, compaction=meta, **fields)


def checked_prune(value: object) -> Prune | None:
    """How to prune: True for the usual way, None or False for not at all."""
    if value is None or value is False:
        return None
    if value is True:
        return Prune()
    if not isinstance(value, Prune):
        raise InvalidValue("prune", f"a Prune expected, got {type(value).__name__}")
    checks.whole(value.protect_tokens, "prune.protect_tokens")
    checks.whole(value.min_saved_tokens, "prune.min_saved_tokens")
    if not isinstance(value.placeholder, str):
        raise InvalidValue("prune.placeholder", "text expected")
    tools: object = value.keep_tools
    if not isinstance(tools, tuple | list):
        raise InvalidValue("prune.keep_tools", f"a tuple of names expected, not {tools!r:.40}")
    for name in tools:
        ids.check_name(name, "prune.keep_tools")
    return value


def checked_count(value: object) -> None:
    """None, or something that can be called with a message."""
    if value is not None and not callable(value):
        raise InvalidValue("count", f"a function expected, got {type(value).__name__}")


def context_limit(config: object) -> float | None:
    """From how many tokens on a session asks to be compacted; None: it never does."""
    if not isinstance(config, dict) or config.get("auto_compact") is not True:
        return None
    size = config.get("max_context_length")
    threshold = config.get("auto_compact_threshold")
    if type(size) is not int or size < 0:
        raise InvalidValue("config.max_context_length", f"a count of tokens, not {size!r:.40}")
    if type(threshold) not in (int, float) or not 0 < threshold <= 1:  # type: ignore[operator]
        raise InvalidValue("config.auto_compact_threshold", f"{threshold!r:.40} is not in (0, 1]")
    return size * threshold if size else None  # type: ignore[operator]
