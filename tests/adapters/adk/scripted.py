"""A model that says what a test wrote down, and small helpers around ADK."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import Field

from ledgerstone.adapters.adk import LedgerSessionService
from tests.adapters.conftest import opened

T = TypeVar("T")
KEY: dict[str, Any] = {"app_name": "trips", "user_id": "ada"}


class Scripted(BaseLlm):
    """Answers with the next of its responses, streamed in two pieces when a stream is asked for."""

    model: str = "scripted"
    script: list[types.Content] = Field(default_factory=list)
    seen: list[list[types.Content]] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.append(list(llm_request.contents))
        said = self.script.pop(0)
        first = said.parts[0] if said.parts else types.Part()
        if stream and first.text:
            half = types.Content(role="model", parts=[types.Part(text=first.text[:3])])
            yield LlmResponse(content=half, partial=True)
        yield LlmResponse(
            content=said,
            model_version="scripted-1",
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=10, candidates_token_count=5, total_token_count=15
            ),
        )


def says(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


def calls(*called: tuple[str, dict[str, Any]]) -> types.Content:
    parts = [types.Part.from_function_call(name=name, args=args) for name, args in called]
    return types.Content(role="model", parts=parts)


def asks(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def event(text: str = "hello", at: float | None = None, **fields: Any) -> Event:
    """An event with a text, and with changes of state when they are given."""
    delta = fields.pop("state", None)
    if delta is not None:
        fields["actions"] = EventActions(state_delta=delta)
    if at is not None:
        fields["timestamp"] = at
    return Event(**{"author": "agent", "invocation_id": "i", "content": says(text), **fields})


def texts(events: list[Event]) -> list[str]:
    return [part.text or "" for one in events for part in (one.content and one.content.parts) or []]


def on(url: str, colour: str, work: Any) -> Any:
    """Run `work(store)` on an open store of that colour."""

    async def go() -> Any:
        async with opened(url, colour) as store:
            return await work(store)

    return asyncio.run(go())


def served(url: str, colour: str, work: Any) -> Any:
    """Run `work(service)` on a session service over a store of that colour."""
    return on(url, colour, lambda store: work(LedgerSessionService(store)))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
