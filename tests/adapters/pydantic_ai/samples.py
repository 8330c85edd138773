"""What the tests of this adapter share: stores of either colour, and messages of every kind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from ledgerstone import AsyncStore, Store
from tests.adapters.conftest import opened

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 3
PDF = b"%PDF-1.7 " + b"\xff\xfb\xff" * 200


def on_store(url: str, colour: str, work: Callable[[Store | AsyncStore], Awaitable[Any]]) -> Any:
    """Run work with an open store of that colour."""

    async def go() -> Any:
        async with opened(url, colour) as store:
            return await work(store)

    return asyncio.run(go())


def same(one: list[ModelMessage], other: list[ModelMessage]) -> bool:
    """Equal as the library itself would keep and read them."""
    return dumped(one) == dumped(other)


def dumped(messages: list[ModelMessage]) -> Any:
    return ModelMessagesTypeAdapter.dump_python(messages, mode="json")


def some_messages(rng: random.Random, count: int) -> list[ModelMessage]:
    """A conversation of all kinds of parts."""
    found: list[ModelMessage] = []
    for n in range(count):
        found.append(_request(rng, n) if n % 2 == 0 else _response(rng, n))
    return found


def _request(rng: random.Random, n: int) -> ModelRequest:
    image = BinaryContent(PNG + bytes([rng.randrange(256)]), media_type="image/png")
    kinds: list[Any] = [
        UserPromptPart(f"question {n} {rng.random()}"),
        UserPromptPart(["see", image, ImageUrl("https://example.org/a.png")]),
        SystemPromptPart("be brief"),
        ToolReturnPart("look", {"rows": [1, None, "x"]}, tool_call_id=f"c{n}"),
        ToolReturnPart(
            "paint", [BinaryContent(PDF, media_type="application/pdf")], tool_call_id=f"c{n}"
        ),
        ToolReturnPart("look", "again please", tool_call_id=f"c{n}", outcome="retried"),
    ]
    return ModelRequest(parts=rng.sample(kinds, rng.randint(1, 3)), run_id=f"r{n}")


def _response(rng: random.Random, n: int) -> ModelResponse:
    kinds: list[Any] = [
        TextPart(f"answer {n} {rng.random()}"),
        ThinkingPart("hmm", signature="sig", provider_name="p"),
        ToolCallPart("look", {"at": n}, tool_call_id=f"c{n}"),
        ToolCallPart("look", '{"at": 1}', tool_call_id=f"d{n}"),
    ]
    return ModelResponse(
        parts=rng.sample(kinds, rng.randint(1, 3)),
        usage=RequestUsage(input_tokens=rng.randint(1, 9), output_tokens=n),
        model_name="m-1",
        finish_reason="stop",
    )
