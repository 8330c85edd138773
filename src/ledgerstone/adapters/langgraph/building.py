"""LangChain's messages from their JSON form, without validation where that would change nothing.

A process that does not know a thread makes an object of each of its messages, and validation is
most of that. The four classes that conversations consist of are built directly when every field is
there and has just the type that validation leaves as it is; whatever else goes through LangChain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
)

_BASE = ("content", "additional_kwargs", "response_metadata", "type", "name", "id")
_CALL = ("name", "args", "id", "type")
_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
_DETAILS = {
    "input_token_details": ("audio", "cache_creation", "cache_read"),
    "output_token_details": ("audio", "reasoning"),
}
_TEXT_OR_NONE = (str, type(None))
_NUMBERS = frozenset((int,))
_BLOCKS = frozenset((str, dict))
_STATUSES = ("success", "error")


def from_natives(natives: Iterable[dict[str, Any]]) -> list[BaseMessage]:
    """What messages_from_dict makes of natives that are JSON; what is in them may be shared."""
    return [_built(one) or messages_from_dict((one,))[0] for one in natives]


def _built(native: dict[str, Any]) -> BaseMessage | None:
    """The message, when validation would leave its fields as they are."""
    type_, data = native.get("type"), native.get("data")
    found = _USUAL.get(type_) if type(type_) is str else None
    if found is None or type(data) is not dict:
        return None
    kind, names, check = found
    if tuple(data) != names or data["type"] != type_ or not _is_base(data):
        return None
    if check is not None and not check(data):
        return None
    made = kind.__new__(kind)
    put = object.__setattr__
    put(made, "__dict__", data.copy())
    put(made, "__pydantic_fields_set__", set(names))
    put(made, "__pydantic_extra__", {})
    put(made, "__pydantic_private__", None)
    return made


def _is_base(data: dict[str, Any]) -> bool:
    content = data["content"]
    if type(content) is not str and (
        type(content) is not list or not _BLOCKS.issuperset(map(type, content))
    ):
        return False
    return (
        type(data["id"]) in _TEXT_OR_NONE
        and type(data["name"]) in _TEXT_OR_NONE
        and type(data["additional_kwargs"]) is dict
        and type(data["response_metadata"]) is dict
    )


def _is_answer(data: dict[str, Any]) -> bool:
    calls, told = data["tool_calls"], data["usage_metadata"]
    # Calls of a provider's own spelling stand in `additional_kwargs`: LangChain reads them there.
    if data["invalid_tool_calls"] != [] or "tool_calls" in data["additional_kwargs"]:
        return False
    if type(calls) is not list or not all(map(_is_call, calls)):
        return False
    return told is None or _is_usage(told)


def _is_usage(told: Any) -> bool:
    if type(told) is not dict:
        return False
    details = [key for key in _DETAILS if key in told] if len(told) > len(_COUNTS) else []
    return (
        tuple(told) == (*_COUNTS, *details)
        and _NUMBERS.issuperset([type(told[key]) for key in _COUNTS])
        and all(_are_details(told[key], _DETAILS[key]) for key in details)
    )


def _are_details(told: Any, names: tuple[str, ...]) -> bool:
    if type(told) is not dict or [key for key in names if key in told] != list(told):
        return False
    return _NUMBERS.issuperset(map(type, told.values()))


def _is_call(call: Any) -> bool:
    return (
        type(call) is dict
        and tuple(call) == _CALL
        and type(call["name"]) is str
        and type(call["args"]) is dict
        and type(call["id"]) in _TEXT_OR_NONE
        and call["type"] == "tool_call"
    )


def _is_result(data: dict[str, Any]) -> bool:
    return type(data["tool_call_id"]) is str and data["status"] in _STATUSES


_USUAL = {
    name: (kind, _BASE + more, check)
    for name, kind, more, check in (
        ("human", HumanMessage, (), None),
        ("system", SystemMessage, (), None),
        ("ai", AIMessage, ("tool_calls", "invalid_tool_calls", "usage_metadata"), _is_answer),
        ("tool", ToolMessage, ("tool_call_id", "artifact", "status"), _is_result),
    )
    # Another version of LangChain may know other fields.
    if tuple(kind.model_fields) == _BASE + more
}
