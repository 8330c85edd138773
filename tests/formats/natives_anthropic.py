"""Messages of Anthropic's API."""

from __future__ import annotations

from tests.formats.values import DATA, LONG, Native

source: Native = {"type": "base64", "media_type": "image/png", "data": DATA}
image: Native = {"type": "image", "source": source}
thinking: Native = {"type": "thinking", "thinking": LONG, "signature": "EqQBCkYIBxgCKkBfMTAw"}
use: Native = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "pay",
    "input": {"z": 1, "a": [{"d": 1, "b": 2}]},
}
kept: Native = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
usage: Native = {
    "input_tokens": 5,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 7,
    "output_tokens": 3,
}
answer: Native = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
ended: Native = {"stop_reason": "tool_use", "stop_sequence": None}
NATIVES: list[Native] = [
    {"role": "user", "content": "hi"},
    {"role": "system", "content": [{"type": "text", "text": "be short", **kept}]},
    {"role": "user", "content": [{"type": "text", "text": LONG, **kept}, image]},
    {
        "role": "user",
        "content": [{"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}],
    },
    {
        "role": "user",
        "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "document",
                "source": {**source, "media_type": "application/pdf"},
                "title": "t",
                "context": "c",
                "citations": {"enabled": True},
            }
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": LONG},
            }
        ],
    },
    {"role": "assistant", "content": "hello"},
    {
        "role": "assistant",
        "content": [thinking, {"type": "text", "text": "I pay"}, use, {**use, "id": "toolu_2"}],
    },
    {
        "role": "assistant",
        "content": [{"type": "redacted_thinking", "data": DATA}, {**thinking, "thinking": ""}],
    },
    {
        "role": "assistant",
        "content": [
            {
                "type": "text",
                "text": LONG,
                "citations": [{"type": "char_location", "cited_text": LONG}],
            }
        ],
    },
    {**answer, "content": [{"type": "text", "text": LONG}], **ended, "usage": usage},
    {
        **answer,
        "content": [],
        **ended,
        "usage": {
            **usage,
            "service_tier": "standard",
            "server_tool_use": {"web_search_requests": 1},
        },
    },
    {
        "role": "assistant",
        "content": [
            {
                "type": "server_tool_use",
                "id": "s1",
                "name": "web_search",
                "input": {"query": "x"},
            },
            {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "paid"},
            {
                "type": "tool_result",
                "tool_use_id": "toolu_2",
                "content": LONG,
                "is_error": True,
            },
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [{"type": "text", "text": "see"}, image],
                **kept,
            }
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1"},
            {"type": "text", "text": "and now?"},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x", "is_error": False}
        ],
    },
]
