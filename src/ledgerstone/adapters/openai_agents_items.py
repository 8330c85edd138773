"""Items of openai-agents as messages and back; needs nothing of that library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ledgerstone import formats
from ledgerstone.errors import InvalidValue
from ledgerstone.records.messages import Message

Item: TypeAlias = dict[str, Any]

FORMAT = "openai"
OTHER = "openai.other"
"""The type of an item that has none, nor a role: what the SDK's EncryptedSession stores."""


def kept(items: object) -> list[Message]:
    """Items as messages; InvalidValue names the first that can not be kept, and the path in it."""
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


def _is_known(item: Item) -> bool:
    if "type" in item:
        return isinstance(item["type"], str)
    return isinstance(item.get("role"), str)
