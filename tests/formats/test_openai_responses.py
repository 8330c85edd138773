"""Items of the Responses API: exact, and said in our words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledgerstone import assistant, formats, tool_call, tool_result, user
from ledgerstone.records.parts import Image, Reasoning, ToolCall

ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "hi"},
    {"content": "hi", "role": "user"},
    {"role": "developer", "content": "be short"},
    {"role": "user", "content": [{"type": "input_text", "text": "see"},
                                 {"type": "input_image", "detail": "auto", "image_url": "data:x"}]},
    {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "yes", "annotations": [], "logprobs": []}]},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "pay", "status": "completed",
     "arguments": '{"z": 1,"a": 2}'},
    {"type": "function_call", "call_id": "c2", "name": "pay", "arguments": "not json"},
    {"type": "function_call_output", "call_id": "c1", "output": "paid"},
    {"type": "function_call_output", "call_id": "c1",
     "output": [{"type": "input_text", "text": "x"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}],
     "encrypted_content": "abc"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"z": 1, "a": None}},
    {"type": "item_reference", "id": "x"},
    {"role": "user", "content": None},
    {"role": "strange", "content": [{"type": "new", "b": 1, "a": 2}]},
]  # fmt: skip


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.get("type", item.get("role")))
def test_exact(item: dict[str, Any]) -> None:
    kept = formats.keep("openai", item)
    (found,) = formats.native("openai", [kept])
    assert json.dumps(found) == json.dumps(item)


def test_said_in_our_words() -> None:
    call, reasoning = formats.keep_all("openai", [ITEMS[5], ITEMS[9]])
    assert call.parts == [ToolCall("c1", "pay", {"a": 2, "z": 1})]
    assert reasoning.parts == [Reasoning("hm", "abc")]
    assert formats.keep("openai", ITEMS[2]).role == "system"


def test_ours_as_items() -> None:
    messages = [
        user(["look", Image(url="https://x/y.png")]),
        assistant([Reasoning("hm", "signed"), "I pay", tool_call("pay", {"eur": 1}, id="c1")]),
        tool_result("c1", {"ok": True}),
    ]
    kinds = [item.get("type", item.get("role")) for item in formats.native("openai", messages)]
    assert kinds == ["user", "reasoning", "assistant", "function_call", "function_call_output"]


def test_what_is_not_json_names_its_place() -> None:
    with pytest.raises(Exception, match="content"):
        formats.keep("openai", {"role": "user", "content": {1, 2}})
