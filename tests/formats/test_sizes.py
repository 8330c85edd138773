"""What keeping a native costs: its text once, and little beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledgerstone import formats
from ledgerstone.codec import encode_json, encode_struct
from tests.formats.natives import natives
from tests.formats.values import DATA, LONG, Native

# ADK and its libraries warn about themselves when they are imported.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

TEXT = "A sentence of a usual answer, as people and models write them. " * 16
ID = "0192f0c1-7d4e-7c3a-9b1f-0123456789ab"
ENVELOPE = 250
"""Role, parts, usage and the like, which every message has."""


def openai() -> list[Native]:
    block = {"annotations": [], "text": TEXT, "type": "output_text", "logprobs": []}
    answer = {"id": f"msg_{ID}", "content": [block], "role": "assistant", "status": "completed"}
    call = {"arguments": '{"city": "Oslo"}', "call_id": "call_1", "name": "look"}
    return [
        {"role": "user", "content": TEXT},
        {**answer, "type": "message"},
        {**call, "type": "function_call", "id": f"fc_{ID}", "status": "completed"},
        {"call_id": "call_1", "output": TEXT, "type": "function_call_output"},
    ]


def chat() -> list[Native]:
    function = {"name": "look", "arguments": '{"city": "Oslo"}'}
    call = {"id": "call_1", "type": "function", "function": function}
    return [
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": TEXT},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": TEXT},
    ]


def anthropic() -> list[Native]:
    use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Oslo"}}
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 3}
    usage = {"input_tokens": 5, **cached, "output_tokens": 9}
    return [
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": [{"type": "text", "text": TEXT}, use]},
        {
            "id": f"msg_{ID}",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": [{"type": "text", "text": TEXT}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": usage,
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": TEXT}],
        },
    ]


def langchain() -> list[Native]:
    from langchain_core import messages as lc

    call: Any = {"name": "look", "args": {"city": "Oslo"}, "id": "call_1"}
    usage: Any = {"input_tokens": 5, "output_tokens": 9, "total_tokens": 14}
    found = [
        lc.HumanMessage(TEXT, id=ID),
        lc.AIMessage(TEXT, id=f"run--{ID}", usage_metadata=usage),
        lc.AIMessage("", id=f"run--{ID}", tool_calls=[call], usage_metadata=usage),
        lc.ToolMessage(TEXT, tool_call_id="call_1", name="look", id=ID),
    ]
    return [lc.message_to_dict(one) for one in found]


def pydantic_ai() -> list[Native]:
    from pydantic_ai import messages as pa

    found: list[Any] = [
        pa.ModelRequest(parts=[pa.UserPromptPart(TEXT)]),
        pa.ModelResponse(parts=[pa.TextPart(TEXT)], model_name="m"),
        pa.ModelResponse(parts=[pa.ToolCallPart("look", {"city": "Oslo"}, "call_1")]),
        pa.ModelRequest(parts=[pa.ToolReturnPart("look", TEXT, "call_1")]),
    ]
    dumped: list[Native] = pa.ModelMessagesTypeAdapter.dump_python(found, mode="json")
    return dumped


def adk() -> list[Native]:
    from google.adk.events import Event
    from google.genai import types as ge

    call = ge.FunctionCall(id="call_1", name="look", args={"city": "Oslo"})
    answer = ge.FunctionResponse(id="call_1", name="look", response={"result": TEXT})
    said = [
        ("user", "user", ge.Part(text=TEXT)),
        ("helper", "model", ge.Part(text=TEXT)),
        ("helper", "model", ge.Part(function_call=call)),
        ("helper", "user", ge.Part(function_response=answer)),
    ]
    return [
        Event(
            author=author,
            invocation_id=f"e-{ID}",
            id=ID,
            content=ge.Content(role=role, parts=[part]),
        ).model_dump(mode="json", by_alias=True, exclude_none=True)
        for author, role, part in said
    ]


USUAL = {
    "openai": (openai, 120),
    "openai-chat": (chat, 90),
    "anthropic": (anthropic, 150),
    "langchain": (langchain, 110),
    "pydantic-ai": (pydantic_ai, 150),
    "adk": (adk, 180),
}


@pytest.mark.parametrize("format", USUAL)
def test_a_usual_message_costs_little(format: str) -> None:
    make, most = USUAL[format]
    for native in make():
        kept = formats.keep(format, native)
        beside = len(encode_json(kept.body.extra, "extra"))
        assert beside <= most, (beside, kept.body.extra)
        body = encode_struct(kept.body, "body")
        assert body.count(TEXT.encode()) == json.dumps(native).count(TEXT)
        assert len(body) < len(TEXT) * body.count(TEXT.encode()) + most + ENVELOPE


@pytest.mark.parametrize("format", formats.NAMES)
def test_no_text_is_kept_twice(format: str) -> None:
    """Long texts and bytes stand in the parts, and the edit points at them."""
    for native in natives(format):
        kept = formats.keep(format, native)
        body = encode_struct(kept.body, "body").decode()
        text = json.dumps(native, ensure_ascii=False)
        for long in (LONG, DATA.rstrip("=")[:40]):
            times = text.replace("_", "/").replace("-", "+").count(long)
            found = body.replace("_", "/").replace("-", "+").count(long)
            assert found <= max(times, 1), (format, native)
