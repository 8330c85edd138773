"""Items of openai-agents as messages and back; needs nothing of that library."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from ledgerstone import formats
from ledgerstone.errors import InvalidValue
from ledgerstone.records.messages import Message

Item: TypeAlias = dict[str, Any]

FORMAT = "openai"
OTHER = "openai.other"
"""The type of an item that has none, nor a role: what the SDK's EncryptedSession stores."""


def kept(items: object) -> list[Message]:
    """Items as messages; InvalidValue names the first that cannot be kept, and the path in it."""
    if not isinstance(items, list | tuple):
        raise InvalidValue("items", f"a list expected, got {type(items).__name__}")
    found = []
    for n, item in enumerate(items):
        wrapped = isinstance(item, dict) and not _is_known(item)
        try:
            found.append(formats.keep(FORMAT, {"type": OTHER, "item": item} if wrapped else item))
        except InvalidValue as error:
            inner = error.field.removeprefix(FORMAT).removeprefix(".item" if wrapped else "")
            raise InvalidValue(f"items[{n}]{inner}", error.reason) from None
    return found


def natives(messages: Sequence[Message]) -> list[Item]:
    """Messages as items: those of the SDK exactly, others from their parts."""
    found = formats.native(FORMAT, messages)
    return [item["item"] if item.get("type") == OTHER else item for item in found]


def by_message(messages: Sequence[Message]) -> list[list[Item]]:
    """The same items, apart for each message.

    A message of another origin may say less in its conversation than alone: a system prompt that
    was told before is not told again.
    """
    alone = [natives([one]) for one in messages]
    if [item for part in alone for item in part] == natives(messages):
        return alone
    ends = [len(natives(messages[:end])) for end in range(len(messages) + 1)]
    items = natives(messages)
    return [items[start:end] for start, end in pairwise(ends)]


def is_own(message: Message) -> bool:
    """Whether a message is one item, whatever stands before it."""
    return formats.origin(message) == FORMAT and not message.version


def _is_known(item: Item) -> bool:
    if "type" in item:
        return isinstance(item["type"], str) and item["type"] != OTHER
    return isinstance(item.get("role"), str)
