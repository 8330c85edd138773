"""Messages of chat completions."""

from __future__ import annotations

from tests.formats.values import DATA, LONG, Native

image: Native = {
    "type": "image_url",
    "image_url": {"url": f"data:image/png;base64,{DATA}", "detail": "high"},
}
call: Native = {
    "id": "c1",
    "type": "function",
    "function": {"name": "pay", "arguments": '{"z": 1, "a": 2}'},
}
empty: Native = {
    "refusal": None,
    "annotations": [],
    "audio": None,
    "function_call": None,
    "tool_calls": None,
}
audio: Native = {"id": "audio_1", "expires_at": 17, "data": DATA, "transcript": LONG}
NATIVES: list[Native] = [
    {"role": "system", "content": "be short"},
    {"role": "developer", "content": "be short", "name": "boss"},
    {"role": "user", "content": LONG, "name": "ada"},
    {"role": "user", "content": [{"type": "text", "text": "see"}, image]},
    {
        "role": "user",
        "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}],
    },
    {
        "role": "user",
        "content": [{"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}}],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "file",
                "file": {
                    "filename": "a.pdf",
                    "file_data": f"data:application/pdf;base64,{DATA}",
                },
            }
        ],
    },
    {"role": "user", "content": [{"type": "file", "file": {"file_id": "f1"}}]},
    {"role": "user", "content": ["odd", None, {"type": "text"}]},
    {"role": "assistant", "content": LONG},
    {"content": LONG, "role": "assistant", **empty},
    {"content": None, "role": "assistant", **empty, "tool_calls": [call, {**call, "id": "c2"}]},
    {"content": "I pay", "role": "assistant", "tool_calls": [call]},
    {"content": None, "role": "assistant", **empty, "refusal": LONG},
    {"content": None, "role": "assistant", **empty, "audio": audio},
    {"role": "assistant", "audio": {"id": "audio_1"}},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "no"}],
    },
    {"role": "assistant", "content": "", "reasoning_content": LONG, "tool_calls": []},
    {"role": "assistant", "content": "<think>\nhm\n</think>"},
    {"role": "assistant", "content": None, "function_call": {"name": "pay", "arguments": "{}"}},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": LONG},
    {"role": "tool", "tool_call_id": "c1", "content": '{"error":"no money"}', "name": "pay"},
    {"role": "tool", "content": [{"type": "text", "text": LONG}], "tool_call_id": "c1"},
    {"role": "function", "name": "pay", "content": "paid"},
    {"role": "strange", "content": "x"},
]
