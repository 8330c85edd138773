"""What the tests of this adapter share: a scripted chat client, and stores of either colour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

from ledgerstone import AsyncStore, Store
from tests.adapters.conftest import opened


def on_store(url: str, colour: str, work: Callable[[Store | AsyncStore], Awaitable[Any]]) -> Any:
    """Run work with an open store of that colour."""

    async def go() -> Any:
        async with opened(url, colour) as store:
            return await work(store)

    return asyncio.run(go())


class ScriptedClient(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """Says one content list after the other, and remembers what it was asked."""

    def __init__(self, *script: Sequence[Content | str]) -> None:
        super().__init__()
        self.script = list(script)
        self.asked: list[list[Message]] = []

    def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,
        options: Mapping[str, Any],
        **kwargs: Any,
    ) -> Any:
        self.asked.append(list(messages))
        contents = self.script.pop(0)
        if not stream:
            return self._answer(contents)

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            for one in contents:
                part = Content.from_text(one) if isinstance(one, str) else one
                yield ChatResponseUpdate(contents=[part], role="assistant")

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

    async def _answer(self, contents: Sequence[Content | str]) -> ChatResponse:
        return ChatResponse(messages=[Message("assistant", list(contents))])
