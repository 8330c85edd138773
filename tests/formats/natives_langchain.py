"""Messages of LangChain, of every class."""

from __future__ import annotations

from typing import Any

from langchain_core import messages

from tests.formats.values import DATA, LONG, Native

# The classes take their content by place, which their types do not say.
lc: Any = messages

usage: Any = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
detailed: Any = {
    **usage,
    "input_token_details": {"cache_read": 3, "audio": 0},
    "output_token_details": {"reasoning": 2},
}
call: Any = {"name": "pay", "args": {"z": 1, "a": {"d": 1, "b": LONG}}, "id": "c1"}
bad: Any = {"name": "pay", "args": '{"z": ', "id": "c9", "error": "no JSON"}
told = {
    "model_name": "gpt",
    "finish_reason": "stop",
    "logprobs": None,
    "token_usage": {"prompt_tokens": 11},
}
image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DATA}"}}
blocks: list[Any] = [
    "plain",
    {"type": "text", "text": LONG},
    image,
    {"type": "image", "base64": DATA, "mime_type": "image/png"},
    {"type": "image", "source_type": "base64", "data": DATA, "mime_type": "image/png"},
    {"type": "image", "url": "https://x/y.png"},
    {"type": "file", "file_id": "f1"},
    {"type": "file", "base64": DATA, "mime_type": "application/pdf", "filename": "a.pdf"},
    {"type": "audio", "base64": DATA, "mime_type": "audio/wav"},
    {"type": "video", "url": "https://x/v.mp4"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}},
    {"type": "text-plain", "text": LONG},
    {"type": "non_standard", "value": {"z": 1, "a": 2}},
]
thoughts: list[Any] = [
    {"type": "thinking", "thinking": LONG, "signature": "EqQBCkYIBxgCKkBfMTAw", "index": 0},
    {"type": "redacted_thinking", "data": DATA},
    {"type": "text", "text": LONG, "index": 1},
    {"type": "tool_use", "id": "c1", "name": "pay", "input": call["args"], "index": 2},
]
reasoning: list[Any] = [
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": LONG}],
        "encrypted_content": "gAAAAABo",
    },
    {"type": "reasoning", "reasoning": LONG, "extras": {"signature": "sig"}},
    {"type": "text", "text": "done", "annotations": []},
]
functions: list[Any] = [
    {"type": "text", "text": "I pay", "annotations": [], "id": "msg_1"},
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "pay",
        "arguments": '{"z": 1, "a": 2}',
        "status": "completed",
    },
]
chunk: Any = {"name": "pay", "args": '{"z": 1, "a": ', "id": "c1", "index": 0}
found = [
    lc.HumanMessage("hi"),
    lc.HumanMessage(LONG, id="m1", name="ada"),
    lc.HumanMessage(content=blocks),
    lc.HumanMessage("x", additional_kwargs={"z": 1, "a": [{"d": 1, "b": 2}]}, odd={"y": 1, "x": 2}),
    lc.SystemMessage("be short"),
    lc.SystemMessage("be short", additional_kwargs={"__openai_role__": "developer"}),
    lc.AIMessage(LONG, id="run--1", usage_metadata=usage, response_metadata=told),
    lc.AIMessage("", tool_calls=[call, {**call, "id": "c2"}], usage_metadata=detailed),
    lc.AIMessage("", tool_calls=[{**call, "id": None}], invalid_tool_calls=[bad]),
    lc.AIMessage("x", invalid_tool_calls=[{**bad, "args": None, "name": None, "id": None}]),
    lc.AIMessage("x", additional_kwargs={"reasoning_content": LONG, "refusal": None}),
    lc.AIMessage(
        "x", additional_kwargs={"tool_calls": [{"id": "c1", "function": {"arguments": "{}"}}]}
    ),
    lc.AIMessage(content=thoughts, tool_calls=[call]),
    lc.AIMessage(content=reasoning, response_metadata={"model_provider": "openai"}),
    lc.AIMessage(content=[{"type": "tool_call", "id": "c1", "name": "pay", "args": {}}]),
    lc.AIMessage(content=functions, tool_calls=[{**call, "args": {"z": 1, "a": 2}}]),
    lc.AIMessage(content=[{**functions[1], "arguments": "{"}]),
    lc.AIMessage("", additional_kwargs={"refusal": LONG}),
    lc.AIMessage(
        "x", additional_kwargs={"reasoning": {"id": "rs_1", "summary": [{"text": LONG}, 5]}}
    ),
    lc.AIMessage("", additional_kwargs={"audio": {"id": "a", "data": DATA, "transcript": "yes"}}),
    lc.AIMessage("", additional_kwargs={"function_call": {"name": "pay", "arguments": "{}"}}),
    lc.ToolMessage(LONG, tool_call_id="c1", name="pay", artifact={"z": 1, "a": [LONG]}),
    lc.ToolMessage("no money", tool_call_id="c1", status="error"),
    lc.ToolMessage(content=[{"type": "text", "text": "see"}, image], tool_call_id="c1"),
    lc.ToolMessage(content=["odd", {"type": "new"}], tool_call_id="c1"),
    lc.FunctionMessage("paid", name="pay"),
    lc.ChatMessage("x", role="boss"),
    lc.ChatMessage("x", role="assistant"),
    lc.RemoveMessage("m1"),
    lc.AIMessageChunk("x", tool_call_chunks=[chunk], usage_metadata=usage, id="run--1"),
    lc.AIMessageChunk("", tool_call_chunks=[{**chunk, "args": '{"a": 1}'}], chunk_position="last"),
    lc.HumanMessageChunk("x"),
    lc.SystemMessageChunk("x"),
    lc.ToolMessageChunk("x", tool_call_id="c1"),
    lc.FunctionMessageChunk("x", name="f"),
    lc.ChatMessageChunk("x", role="human"),
]
NATIVES: list[Native] = [lc.message_to_dict(one) for one in found]
