"""What is rendered is what providers take: calls with their results, roles that exist, order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ledgerstone import assistant, formats, message, system, tool_call, tool_result, user
from ledgerstone.formats.objects import to_objects
from ledgerstone.records.parts import Image, Media, Reasoning, Source, ToolResult
from ledgerstone.records.usage import Usage
from tests.formats.test_ring import conversation
from tests.formats.values import DATA

# ADK and its libraries warn about themselves when they are imported.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "pay both"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"role": "assistant", "content": "I pay."},
    {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": '{"eur": 1}'},
    {"type": "function_call", "call_id": "c2", "name": "pay", "arguments": '{"eur": 2}'},
    {"type": "function_call_output", "call_id": "c1", "output": "paid"},
    {"type": "function_call_output", "call_id": "c2", "output": '{"error": "no money"}'},
    {"role": "assistant", "content": "One is paid."},
]


def test_items_become_one_answer_each() -> None:
    kept = formats.keep_all("openai", ITEMS)
    kinds = [one["type"] for one in formats.native("langchain", kept)]
    assert kinds == ["human", "ai", "tool", "tool", "ai"]
    kinds = [one["kind"] for one in formats.native("pydantic-ai", kept)]
    assert kinds == ["request", "response", "request", "response"]
    roles = [one["content"]["role"] for one in formats.native("adk", kept)]
    assert roles == ["user", "model", "user", "model"]
    roles = [one["role"] for one in formats.native("anthropic", kept)]
    assert roles == ["user", "assistant", "user", "assistant"]
    roles = [one["role"] for one in formats.native("openai-chat", kept)]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]


def test_calls_are_answered_in_the_next_message() -> None:
    kept = formats.keep_all("openai", ITEMS)
    _, answer, results, _ = formats.native("anthropic", kept)
    uses = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
    answers = [(one["tool_use_id"], one.get("is_error", False)) for one in results["content"]]
    assert uses == ["c1", "c2"]
    assert answers == [("c1", False), ("c2", True)]
    _, said, first, second, _ = formats.native("openai-chat", kept)
    assert [call["id"] for call in said["tool_calls"]] == ["c1", "c2"]
    assert (first["tool_call_id"], second["content"]) == ("c1", '{"error":"no money"}')


def test_results_learn_the_names_of_their_calls() -> None:
    kept = formats.keep_all("openai", ITEMS)
    results = formats.native("adk", kept)[2]["content"]["parts"]
    assert [one["functionResponse"]["name"] for one in results] == ["pay", "pay"]
    mixed = [*formats.keep_all("adk", formats.native("adk", kept[:5])), *kept[5:]]
    results = formats.native("adk", mixed)[2]["content"]["parts"]
    assert [one["functionResponse"]["name"] for one in results] == ["pay", "pay"]


def test_calls_without_ids_are_paired() -> None:
    calls = [{"functionCall": {"name": name, "args": {}}} for name in "xy"]
    results = [
        {"functionResponse": {"name": name, "response": {"result": f"of {name}"}}} for name in "yx"
    ]
    events = [
        {"author": "a", "content": {"role": "model", "parts": calls}},
        {"author": "a", "content": {"role": "user", "parts": results}},
    ]
    answer, *shown = formats.native("openai-chat", formats.keep_all("adk", events))
    ids = {call["function"]["name"]: call["id"] for call in answer["tool_calls"]}
    assert len(set(ids.values())) == 2
    assert [(one["tool_call_id"], one["content"]) for one in shown] == [
        (ids["y"], "of y"),
        (ids["x"], "of x"),
    ]


def test_an_id_that_is_made_up_is_nobody_elses() -> None:
    call = {"functionCall": {"name": "x", "args": {}}}
    result = {"functionResponse": {"name": "x", "response": {"result": "of x"}}}
    events = [
        {"author": "a", "content": {"role": "model", "parts": [call]}},
        {"author": "a", "content": {"role": "user", "parts": [result]}},
    ]
    items = [
        {"type": "function_call", "call_id": "call_1", "name": "y", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "of y"},
    ]
    kept = [*formats.keep_all("adk", events), *formats.keep_all("openai", items)]
    first, one, second, two = formats.native("openai-chat", kept)
    assert first["tool_calls"][0]["id"] == one["tool_call_id"] == "call_2"
    assert second["tool_calls"][0]["id"] == two["tool_call_id"] == "call_1"


@pytest.mark.parametrize("format", formats.NAMES)
@pytest.mark.parametrize(
    "listing", [[{"type": "file", "name": "a.txt"}], [{"type": "image", "data": "no base64!"}]]
)
def test_an_answer_that_only_looks_like_parts(format: str, listing: list[Any]) -> None:
    """A list of files, say: there are no bytes to be shown, and none to be asked for."""
    messages = [assistant([tool_call("ls", {}, id="c1")]), tool_result("c1", listing)]
    natives = formats.native(format, messages)
    to_objects(format, natives)
    text = json.dumps(natives)
    assert "blob:" not in text
    assert all(str(value) in text for one in listing for value in one.values())
    kept = formats.keep_all(format, natives)
    assert not any(isinstance(part, Media) for one in kept for part in one.parts)


@pytest.mark.parametrize("format", formats.NAMES)
def test_bytes_in_an_answer_are_spelled_for_all(format: str) -> None:
    shown = {"type": "image", "data": "-_-_ -_9", "media_type": "image/png"}
    messages = [
        user([Image(data=shown["data"], media_type="image/png")]),
        assistant([tool_call("see", {}, id="c1")]),
        tool_result("c1", [shown]),
    ]
    natives = formats.native(format, messages)
    to_objects(format, natives)
    url_safe = format in ("pydantic-ai", "adk")
    assert json.dumps(natives).count("-_-_-_8=" if url_safe else "+/+/+/8=") == 2


@pytest.mark.parametrize("format", formats.NAMES)
def test_signatures_go_only_to_who_gave_them(format: str) -> None:
    signed = {"type": "thinking", "thinking": "hm", "signature": "EqQBCkYIBxgCKkBfMTAw"}
    native = {"role": "assistant", "content": [signed, {"type": "text", "text": "yes"}]}
    kept = formats.keep("anthropic", native)
    text = json.dumps(formats.native(format, [kept]))
    assert "hm" in text
    if format in ("openai", "openai-chat"):
        assert "EqQB" not in text
        assert "<think>" in text
    else:
        assert "EqQB" in text
    if format == "adk":
        assert "thoughtSignature" not in text
    item = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAABo_theirs"}
    shown = formats.native("anthropic", formats.keep_all("openai", [item]))
    assert shown == []


def test_a_signature_comes_home() -> None:
    """Around through every library that has a place for it."""
    signed = {"type": "thinking", "thinking": "hm", "signature": "EqQBCkYIBxgCKkBfMTAw"}
    native = {"role": "assistant", "content": [signed, {"type": "text", "text": "yes"}]}
    kept = formats.keep_all("anthropic", [native])
    for format in ("langchain", "pydantic-ai", "adk", "langchain", "anthropic"):
        natives = formats.native(format, kept)
        to_objects(format, natives)
        kept = formats.keep_all(format, natives)
    assert formats.native("anthropic", kept) == [native]


def test_prompts_are_told_once() -> None:
    """Pydantic AI repeats its instructions with each request."""
    request = {"kind": "request", "instructions": "be short"}
    part = {"part_kind": "user-prompt", "content": "hi"}
    answer = {"kind": "response", "parts": [{"part_kind": "text", "content": "yes"}]}
    natives = [{**request, "parts": [part]}, answer, {**request, "parts": [part]}]
    kept = formats.keep_all("pydantic-ai", natives)
    assert [one.role for one in kept] == ["user", "assistant", "user"]
    assert [one.text for one in kept] == ["hi", "yes", "hi"]
    roles = [one["role"] for one in formats.native("openai", kept)]
    assert roles == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("format", formats.NAMES)
def test_images_are_shown_by_those_who_can(format: str) -> None:
    """What an assistant or a tool shows is not lost where only a user may show it."""
    shown = Image(data=DATA, media_type="image/png")
    result = [
        {"type": "text", "text": "see"},
        {"type": "image", "data": DATA, "media_type": "image/png"},
    ]
    messages = [
        user("draw"),
        assistant(["here", shown, tool_call("draw", {}, id="c1")]),
        tool_result("c1", result, tool_name="draw"),
        assistant("done"),
    ]
    natives = formats.native(format, messages)
    to_objects(format, natives)
    text = json.dumps(natives)
    assert text.count(DATA.translate(str.maketrans("+/", "-_"))) + text.count(DATA) == 2
    if format == "openai-chat":
        roles = [one["role"] for one in natives]
        assert roles == ["user", "user", "assistant", "tool", "user", "assistant"]


@pytest.mark.parametrize("format", formats.NAMES)
def test_odd_messages_of_our_own(format: str) -> None:
    """Empty ones say nothing; a tool's text without a part is its result."""
    messages = [
        user(""),
        user([]),
        assistant([]),
        assistant([tool_call("f", None, id="c1"), tool_call("g", "not json", id="c2")]),
        message("tool", "answered", tool_call_id="c1"),
        message("tool", [ToolResult("c2", None)]),
        message("developer", "be short"),
        system("and polite"),
        assistant([Reasoning("")]),
    ]
    natives = formats.native(format, messages)
    to_objects(format, natives)
    assert "answered" in json.dumps(natives)
    kept = formats.keep_all(format, natives)
    calls = [call.id for one in kept for call in one.tool_calls]
    assert calls == ["c1", "c2"]


CHAT = {"role": "assistant", "content": None}
ANSWER = {"type": "ai", "data": {"content": ""}}
BESIDE: list[tuple[str, dict[str, Any]]] = [
    ("openai-chat", {**CHAT, "refusal": "the word"}),
    ("openai-chat", {**CHAT, "reasoning_content": "the word"}),
    ("openai-chat", {**CHAT, "content": "so", "reasoning": "the word"}),
    ("openai-chat", {**CHAT, "audio": {"id": "a", "data": DATA, "transcript": "the word"}}),
    ("openai-chat", {**CHAT, "function_call": {"name": "f", "arguments": '{"a": "the word"}'}}),
    *(
        ("langchain", {**ANSWER, "data": {"content": "", "additional_kwargs": told}})
        for told in (
            {"refusal": "the word"},
            {"reasoning": {"summary": [{"type": "summary_text", "text": "the word"}]}},
            {"audio": {"id": "a", "data": DATA, "transcript": "the word"}},
            {"function_call": {"name": "f", "arguments": '{"a": "the word"}'}},
        )
    ),
    (
        "openai",
        {"type": "reasoning", "summary": [{"text": "short"}], "content": [{"text": "the word"}]},
    ),
]


@pytest.mark.parametrize("format", formats.NAMES)
@pytest.mark.parametrize(("origin", "native"), BESIDE)
def test_what_is_said_beside_the_content(origin: str, native: dict[str, Any], format: str) -> None:
    """Refusals, thoughts, transcripts and calls of old in fields of their own are not lost."""
    kept = formats.keep(origin, native)
    assert formats.native(origin, [kept]) == [native]
    shown = formats.native(format, [kept])
    assert "the word" in json.dumps(shown)
    to_objects(format, shown)
    again = formats.native("openai-chat", formats.keep_all(format, shown))
    assert "the word" in json.dumps(again)


@pytest.mark.parametrize("format", formats.NAMES)
def test_arguments_that_are_text(format: str) -> None:
    """The text of an object is the object, also where a framework left it as text."""
    messages = [assistant([tool_call("f", '{"a": 1}', id="c1"), tool_call("g", "{", id="c2")])]
    kept = formats.keep_all(format, formats.native(format, messages))
    first, second = [call for one in kept for call in one.tool_calls]
    assert first.arguments == {"a": 1}
    assert second.arguments in ("{", {"arguments": "{"})


def test_a_call_of_old_and_its_result() -> None:
    """They have no ids, and find each other by the name."""
    call = {**CHAT, "function_call": {"name": "f", "arguments": "{}"}}
    kept = formats.keep_all(
        "openai-chat", [call, {"role": "function", "name": "f", "content": "done"}]
    )
    answer, results = formats.native("anthropic", kept)
    assert answer["content"][0]["id"] == results["content"][0]["tool_use_id"] != ""


def test_a_call_that_stands_twice_is_shown_once() -> None:
    """LangChain keeps an answer of the Responses API as its content, and its calls beside it."""
    block = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
    call = {"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"}
    native = {"type": "ai", "data": {"content": [block], "tool_calls": [call]}}
    kept = formats.keep("langchain", native)
    assert formats.native("langchain", [kept]) == [native]
    (shown,) = formats.native("anthropic", [kept])
    assert shown["content"] == [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]


def test_a_call_of_old_beside_the_calls_is_no_other() -> None:
    """LangChain's integration for Gemini says every call both ways."""
    call = {"name": "f", "args": {}, "id": "c1", "type": "tool_call"}
    beside = {"function_call": {"name": "f", "arguments": "{}"}}
    data = {"content": "", "tool_calls": [call], "additional_kwargs": beside}
    kept = formats.keep("langchain", {"type": "ai", "data": data})
    assert [one.id for one in kept.tool_calls] == ["c1"]


def test_a_picture_by_its_address_comes_through_pydantic_ai() -> None:
    """Its answers hold bytes and no addresses; what stands beside them is read again."""
    shown, source = Image(url="https://x/y.png"), Source(url="https://x")
    messages = [user("draw"), assistant(["here", shown, source])]
    kept = formats.keep_all("pydantic-ai", formats.native("pydantic-ai", messages))
    assert kept[1].parts == messages[1].parts


def test_usage_and_model_are_ours_too() -> None:
    usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    details = {"input_token_details": {"cache_read": 3}, "output_token_details": {"reasoning": 2}}
    told = {"model_name": "gpt", "finish_reason": "stop", "model_provider": "openai"}
    data = {"content": "x", "usage_metadata": {**usage, **details}, "response_metadata": told}
    kept = formats.keep("langchain", {"type": "ai", "data": data})
    body = kept.body
    assert body.usage == Usage(11, 7, cached_input=3, reasoning=2, total=18)
    assert (body.model, body.provider, body.finish_reason) == ("gpt", "openai", "stop")
    (event,) = formats.native("adk", [kept])
    assert event["modelVersion"] == "gpt"
    assert formats.keep("adk", event).usage == body.usage
    (response,) = formats.native("pydantic-ai", [kept])
    found = formats.keep("pydantic-ai", response).body
    assert found.usage == Usage(11, 7, cached_input=3, reasoning=2)
    assert (found.model, found.finish_reason) == ("gpt", "stop")


def test_nothing_said_is_nothing_shown() -> None:
    for format in formats.NAMES:
        assert formats.native(format, []) == []


def test_a_provider_sees_alternating_roles() -> None:
    natives = formats.native("anthropic", conversation())
    assert [one["role"] for one in natives] == [
        "system", "user", "assistant", "user", "assistant", "user", "assistant",
    ]  # fmt: skip


@pytest.mark.parametrize("format", formats.NAMES)
def test_base64_in_every_spelling(format: str) -> None:
    """Without padding, over several lines, of the other alphabet; and what is none at all."""
    plain = DATA.rstrip("=")
    for data in (
        DATA,
        plain,
        f"{DATA[:40]}\n{DATA[40:]}",
        plain.replace("+", "-").replace("/", "_"),
    ):
        natives = formats.native(format, [user(["see", Image(data=data, media_type="image/png")])])
        text = json.dumps(to_objects(format, natives), default=str)
        assert len(text) > 0
        shown = formats.keep_all(format, natives)[0].parts[1]
        assert isinstance(shown, Image)
        assert shown.data == DATA
    broken = formats.native(format, [user(["see", Image(data="{no bytes}")])])
    to_objects(format, broken)
    assert "{no bytes}" in json.dumps(broken)


def test_a_part_may_have_any_type() -> None:
    """Not even a lone surrogate is refused."""
    odd = {"type": "\ud800"}
    assert user([odd]).parts == [odd]
