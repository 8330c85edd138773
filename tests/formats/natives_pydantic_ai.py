"""Requests and responses of Pydantic AI, with every kind of part."""

from __future__ import annotations

import warnings
from typing import Any

from pydantic_ai import messages as pa
from pydantic_ai.usage import RequestUsage

from tests.formats.values import DATA, LONG, PIXEL, Native

usage = RequestUsage(input_tokens=5, output_tokens=3, cache_read_tokens=2, details={"z": 1, "a": 2})
items: list[Any] = [
    LONG,
    pa.ImageUrl("https://x/y.png", vendor_metadata={"detail": "low"}),
    pa.AudioUrl("https://x/y.mp3"),
    pa.VideoUrl("https://x/y.mp4"),
    pa.DocumentUrl("https://x/y.pdf"),
    pa.BinaryContent(PIXEL, media_type="image/png"),
    pa.BinaryContent(b"%PDF", media_type="application/pdf"),
    pa.BinaryContent(PIXEL, media_type="audio/wav"),
    pa.CachePoint(),
    pa.TextContent(LONG, metadata={"z": 1}),
    pa.UploadedFile(file_id="f1", provider_name="openai", media_type="application/pdf"),
]
call = pa.ToolCallPart("pay", {"z": 1, "a": {"d": 1, "b": LONG}}, "c1")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    retries: list[Any] = [
        pa.RetryPromptPart("bad", tool_name="pay", tool_call_id="c1"),
        pa.RetryPromptPart(LONG),
        pa.RetryPromptPart(
            [{"type": "missing", "loc": ("a", 1), "msg": "m", "input": {}}], tool_name="pay"
        ),
    ]
found: list[Any] = [
    pa.ModelRequest(parts=[pa.UserPromptPart("hi")]),
    pa.ModelRequest(parts=[pa.SystemPromptPart("be short"), pa.SystemPromptPart(LONG)]),
    pa.ModelRequest(
        parts=[pa.SystemPromptPart("be short", dynamic_ref="x"), pa.UserPromptPart(LONG)],
        instructions=LONG,
        run_id="r",
    ),
    pa.ModelRequest(
        parts=[pa.UserPromptPart(items), pa.UserPromptPart([]), pa.UserPromptPart("and?")]
    ),
    pa.ModelRequest(parts=[pa.ToolReturnPart("pay", {"z": 1, "a": 2}, "c1", metadata={"y": 1})]),
    pa.ModelRequest(
        parts=[
            pa.ToolReturnPart("pay", LONG, "c1", outcome="failed"),
            pa.ToolReturnPart("pay", None, "c2", outcome="denied"),
            pa.UserPromptPart("x"),
        ],
        instructions="be",
    ),
    pa.ModelRequest(parts=[pa.ToolReturnPart("pay", ["see", items[1], items[5]], "c1")]),
    pa.ModelRequest(parts=[pa.ToolReturnPart("pay", [LONG, "b"], "c1"), *retries]),
    pa.ModelRequest(parts=retries[:1]),
    pa.ModelRequest(parts=[]),
    pa.ModelResponse(parts=[pa.TextPart(LONG)], usage=usage, model_name="m", finish_reason="stop"),
    pa.ModelResponse(
        parts=[
            pa.ThinkingPart(LONG, signature="sig", provider_name="anthropic"),
            pa.TextPart("x"),
            call,
        ],
        finish_reason="tool_call",
    ),
    pa.ModelResponse(
        parts=[
            pa.ThinkingPart("", id="redacted_thinking", signature=DATA, provider_name="anthropic"),
            pa.ThinkingPart("x", provider_details={"z": 1}),
        ],
        provider_name="anthropic",
    ),
    pa.ModelResponse(
        parts=[
            pa.ToolCallPart("pay", '{"z": 1, "a": 2}', "c1"),
            pa.ToolCallPart("pay", None, "c2"),
            pa.ToolCallPart("pay", "{", "c3"),
            call,
        ]
    ),
    pa.ModelResponse(
        parts=[
            pa.NativeToolCallPart("web_search", {"query": "x"}, "s1", provider_name="openai"),
            pa.NativeToolReturnPart(
                "web_search", {"z": 1, "a": LONG}, "s1", provider_name="openai"
            ),
            pa.TextPart("x", id="msg_1"),
        ]
    ),
    pa.ModelResponse(
        parts=[pa.FilePart(items[5])],
        timestamp=pa.ModelResponse(parts=[]).timestamp,
        provider_response_id="resp",
        metadata={"z": 1},
    ),
    pa.ModelResponse(
        parts=[pa.CompactionPart(LONG, provider_name="anthropic")], state="interrupted"
    ),
    pa.ModelResponse(parts=[]),
]
NATIVES: list[Native] = pa.ModelMessagesTypeAdapter.dump_python(found, mode="json")
