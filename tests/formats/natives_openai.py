"""Items of the Responses API."""

from __future__ import annotations

from tests.formats.values import DATA, LONG, Native

image: Native = {
    "type": "input_image",
    "detail": "auto",
    "image_url": f"data:image/png;base64,{DATA}",
}
output: Native = {"type": "output_text", "text": LONG, "annotations": [], "logprobs": []}
cited: Native = {
    **output,
    "annotations": [{"type": "url_citation", "url": "https://x", "title": "t"}],
}
file: Native = {
    "type": "input_file",
    "filename": "a.pdf",
    "file_data": "data:application/pdf;base64,QQ==",
}
answer: Native = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
call: Native = {"type": "function_call", "call_id": "c1", "name": "pay"}
NATIVES: list[Native] = [
    {"role": "user", "content": "hi"},
    {"content": "hi", "role": "user"},
    {"role": "user", "content": ""},
    {"role": "developer", "content": "be short"},
    {"role": "system", "content": [{"type": "input_text", "text": "be short"}]},
    {"type": "message", "role": "user", "content": "hi"},
    {"role": "user", "content": [{"type": "input_text", "text": "see"}, image]},
    {"role": "user", "content": [{"type": "input_image", "file_id": "f1", "detail": "low"}]},
    {"role": "user", "content": [file, {"type": "input_file", "file_id": "f1"}]},
    {"role": "user", "content": [{"type": "input_file", "file_url": "https://x/a.pdf"}]},
    {
        "role": "user",
        "content": [{"type": "input_audio", "input_audio": {"data": "QQ==", "format": "mp3"}}],
    },
    {**answer, "content": [output]},
    {**answer, "content": [cited, {"type": "refusal", "refusal": LONG}]},
    {"role": "assistant", "content": "<think>\nhm\n</think>"},
    {
        "role": "assistant",
        "content": [{"type": "output_text", "text": "<think>\nhm\n</think>"}],
    },
    {**call, "id": "fc_1", "status": "completed", "arguments": '{"z": 1,"a": 2}'},
    {**call, "arguments": f'{{"to": "{LONG}", "amount": {{"eur": 120, "cent": 5}}}}'},
    {**call, "arguments": "not json"},
    {**call, "arguments": ""},
    {**call, "arguments": '{"a": NaN}'},
    {**call, "arguments": "[1, 2]"},
    {"type": "function_call", "name": "no call id", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "paid"},
    {"type": "function_call_output", "call_id": "c1", "output": '{"error": "no money"}'},
    {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [{"type": "input_text", "text": "x"}, image],
    },
    {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [{"type": "new", "b": 1, "a": 2}],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": LONG}],
        "encrypted_content": "abc",
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "x"}],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [
            {"type": "summary_text", "text": "a"},
            {"type": "summary_text", "text": "b"},
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "in short"}],
        "content": [{"type": "reasoning_text", "text": LONG}],
    },
    {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"z": 1, "a": None},
    },
    {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "computer_screenshot", "image_url": "data:x"},
    },
    {"type": "item_reference", "id": "x"},
    {"type": "compaction", "encrypted_content": "gAAA"},
    {"role": "user", "content": None},
    {"role": "strange", "content": [{"type": "new", "b": 1, "a": 2}]},
]
