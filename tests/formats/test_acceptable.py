"""What is rendered passes the checks of the libraries that send it to providers."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from ledgerstone import formats
from ledgerstone.records.messages import Message
from tests.formats.natives import natives
from tests.formats.test_ring import conversation

# ADK and its libraries warn about themselves when they are imported.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

ORIGINS = ("ours", *formats.NAMES)


def told(origin: str) -> list[Message]:
    """The conversation as a library keeps it."""
    if origin == "ours":
        return conversation()
    return formats.keep_all(origin, formats.native(origin, conversation()))


def others(format: str) -> list[str]:
    return [origin for origin in ORIGINS if origin != format]


@pytest.mark.parametrize("origin", others("openai"))
def test_items_are_of_the_declared_types(origin: str) -> None:
    from openai.types.responses import ResponseInputItemParam

    known: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
    for item in formats.native("openai", told(origin)):
        known.validate_python(item)


@pytest.mark.parametrize("origin", others("openai"))
def test_items_become_chat_in_openai_agents(origin: str) -> None:
    """Its converter refuses results without calls and calls without results."""
    from agents.models.chatcmpl_converter import Converter

    items: Any = formats.native("openai", told(origin))
    roles = [one["role"] for one in Converter.items_to_messages(items)]
    assert roles.count("tool") == 2
    assert roles[0] == "system"


@pytest.mark.parametrize("origin", others("openai-chat"))
def test_chat_is_of_the_declared_types(origin: str) -> None:
    from openai.types.chat import ChatCompletionMessageParam

    known: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
    for message in formats.native("openai-chat", told(origin)):
        known.validate_python(message)


@pytest.mark.parametrize("origin", others("langchain"))
def test_langchain_translates_it(origin: str) -> None:
    from langchain_core.messages import convert_to_openai_messages

    from ledgerstone.formats.objects import to_objects

    messages = to_objects("langchain", formats.native("langchain", told(origin)))
    found: Any = convert_to_openai_messages(messages)
    calls = [call["id"] for one in found for call in one.get("tool_calls", [])]
    results = [one["tool_call_id"] for one in found if one["role"] == "tool"]
    assert calls == results == ["call_1a", "call_1b"]
    blocks = [block["type"] for one in messages for block in one.content_blocks]
    assert "non_standard" not in blocks
    assert blocks.count("reasoning") == 2


@pytest.mark.parametrize("origin", others("adk"))
def test_adk_makes_contents_of_it(origin: str) -> None:
    """Calls and responses must match, or it raises."""
    from google.adk.flows.llm_flows.contents import _get_contents

    from ledgerstone.formats.objects import to_objects

    events = to_objects("adk", formats.native("adk", told(origin)))
    contents = _get_contents(None, events, "model")
    parts = [part for content in contents for part in content.parts or []]
    assert len([part for part in parts if part.function_call]) == 2
    assert len([part for part in parts if part.function_response]) == 2
    assert {content.role for content in contents} == {"user", "model"}


@pytest.mark.parametrize("origin", others("anthropic"))
def test_anthropic_gets_results_right_after_calls(origin: str) -> None:
    shown = [one for one in formats.native("anthropic", told(origin)) if one["role"] != "system"]
    for before, after in zip(shown, [*shown[1:], {"content": []}], strict=True):
        blocks = before["content"] if isinstance(before["content"], list) else []
        calls = [one["id"] for one in blocks if one["type"] == "tool_use"]
        if calls:
            results = [one["tool_use_id"] for one in after["content"][: len(calls)]]
            assert results == calls
    kinds = {one["type"] for one in shown[0]["content"]}
    assert kinds == {"text", "image"}


@pytest.mark.parametrize("format", formats.NAMES)
@pytest.mark.parametrize("origin", formats.NAMES)
def test_everything_can_be_shown(format: str, origin: str) -> None:
    """Every native of every format, in every other, as objects of its library."""
    from ledgerstone.formats.objects import to_objects

    for native in natives(origin):
        kept = formats.keep(origin, native)
        to_objects(format, formats.native(format, [kept]))
