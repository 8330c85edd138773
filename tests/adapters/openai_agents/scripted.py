"""A model that says what it is told to, and the things it may say."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseUsage,
)
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

# No network: neither the model nor the SDK's tracing may look for one.
os.environ.setdefault("OPENAI_API_KEY", "none")
set_tracing_disabled(True)

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def say(text: str, id: str = "msg_1") -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, annotations=[], type="output_text", logprobs=[])
    return ResponseOutputMessage(
        id=id, role="assistant", status="completed", type="message", content=[part]
    )


def call(name: str, arguments: dict[str, Any], id: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(
        name=name, arguments=json.dumps(arguments), call_id=id, type="function_call", id=f"fc_{id}"
    )


def think(text: str, id: str = "rs_1") -> ResponseReasoningItem:
    return ResponseReasoningItem(
        id=id,
        type="reasoning",
        summary=[Summary(text=text, type="summary_text")],
        encrypted_content="c2VjcmV0",
    )


class Scripted(Model):
    """Answers with one list of outputs after the other; keeps what it was asked."""

    def __init__(self, *answers: list[Any], name: str = "scripted") -> None:
        self.answers = list(answers)
        self.model = name
        self.asked: list[Any] = []

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **more: Any
    ) -> ModelResponse:
        output, id = self._next(input)
        usage = Usage(
            requests=1,
            input_tokens=100,
            output_tokens=10,
            total_tokens=110,
            input_tokens_details=InputTokensDetails(cached_tokens=40, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=3),
        )
        return ModelResponse(output=output, usage=usage, response_id=id)

    async def stream_response(
        self, system_instructions: Any, input: Any, *args: Any, **more: Any
    ) -> AsyncIterator[Any]:
        output, id = self._next(input)
        response = Response(
            id=id,
            created_at=1,
            model=self.model,
            object="response",
            output=output,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
            usage=ResponseUsage(
                input_tokens=100,
                output_tokens=10,
                total_tokens=110,
                input_tokens_details=InputTokensDetails(cached_tokens=40, cache_write_tokens=0),
                output_tokens_details=OutputTokensDetails(reasoning_tokens=3),
            ),
        )
        yield ResponseCompletedEvent(
            type="response.completed", response=response, sequence_number=0
        )

    def _next(self, input: Any) -> tuple[list[Any], str]:
        self.asked.append(input if isinstance(input, str) else list(input))
        return self.answers.pop(0), f"resp_{self.model}_{len(self.asked)}"
