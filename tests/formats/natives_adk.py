"""Events of ADK."""

from __future__ import annotations

from typing import Any

from google.adk.events import Event, EventActions
from google.genai import types as ge

from tests.formats.values import LONG, PIXEL, Native

call = ge.Part(
    function_call=ge.FunctionCall(id="c1", name="pay", args={"z": 1, "a": {"d": 1, "b": LONG}})
)
thought = ge.Part(text=LONG, thought=True, thought_signature=b"\xff\xfe\xfdsignature")
usage = ge.GenerateContentResponseUsageMetadata(
    prompt_token_count=5, candidates_token_count=3, thoughts_token_count=2, total_token_count=10
)
results: list[Any] = [
    {"ok": True},
    {"result": LONG},
    {"error": "no money"},
    {"result": {"result": 1}},
    {},
    None,
]
answers = [
    ge.Part(function_response=ge.FunctionResponse(id=f"c{n}", name="pay", response=one))
    for n, one in enumerate(results)
]
blob = ge.FunctionResponseBlob(mime_type="image/png", data=PIXEL)
shown = ge.FunctionResponse(
    id="c1",
    name="look",
    response={"result": "see"},
    parts=[ge.FunctionResponsePart(inline_data=blob)],
)
media = [
    ge.Part(text="see"),
    ge.Part.from_bytes(data=PIXEL, mime_type="image/png"),
    ge.Part.from_bytes(data=b"%PDF", mime_type="application/pdf"),
    ge.Part(inline_data=ge.Blob(data=PIXEL, mime_type="audio/wav", display_name="a.wav")),
    ge.Part.from_uri(file_uri="gs://b/v.mp4", mime_type="video/mp4"),
]
code = [
    ge.Part(executable_code=ge.ExecutableCode(code="print(1)", language=ge.Language.PYTHON)),
    ge.Part(
        code_execution_result=ge.CodeExecutionResult(output="1", outcome=ge.Outcome.OUTCOME_OK)
    ),
]


def said(role: str, *parts: ge.Part) -> ge.Content:
    return ge.Content(role=role, parts=list(parts))


signed = ge.Part(function_call=ge.FunctionCall(name="pay", args={}), thought_signature=b"\xff\x00")
actions = EventActions(
    state_delta={"z": 1, "app:a": {"d": 1, "b": 2}},
    artifact_delta={"f": 1},
    transfer_to_agent="x",
)
found = [
    Event(author="user", invocation_id="e-1", content=said("user", ge.Part(text="hi"))),
    Event(author="user", invocation_id="e-1", content=said("user", *media)),
    Event(
        author="helper",
        content=said("model", ge.Part(text=LONG)),
        usage_metadata=usage,
        model_version="gemini",
        finish_reason=ge.FinishReason.STOP,
    ),
    Event(
        author="helper",
        content=said("model", thought, call, signed),
        long_running_tool_ids={"c1"},
    ),
    Event(author="helper", content=said("user", *answers)),
    Event(author="helper", content=said("user", answers[2])),
    Event(author="helper", content=said("user", ge.Part(function_response=shown))),
    Event(
        author="helper",
        content=said("model", ge.Part(text="x")),
        partial=True,
        turn_complete=False,
    ),
    Event(author="helper", content=said("model", *code)),
    Event(author="helper", content=ge.Content(parts=[ge.Part(text="x")])),
    Event(author="helper", content=ge.Content(role="model")),
    Event(author="helper", content=said("model", ge.Part(text=""), ge.Part())),
    Event(author="system", content=said("user", ge.Part(text="be short"))),
    Event(author="user", actions=actions, branch="a.b", custom_metadata={"z": 1, "a": 2}),
    Event(
        author="helper",
        error_code="SAFETY",
        error_message=LONG,
        finish_reason=ge.FinishReason.SAFETY,
    ),
    Event(
        author="helper",
        error_code="429",
        content=said("model", ge.Part(text="x")),
        interrupted=True,
    ),
    Event(
        author="helper",
        output={"z": 1, "a": 2},
        grounding_metadata=ge.GroundingMetadata(web_search_queries=["q"]),
    ),
]
NATIVES: list[Native] = [
    one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found
]
