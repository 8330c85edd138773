"""Pydantic AI: a conversation saved after every turn, and loaded again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage
from pydantic_ai_harness.step_persistence.conversations import (
    ConversationSummary,
    SqliteConversationStore,
)

from bench.contender import History, settle
from bench.postgres.place import url
from bench.work import MODEL, TOOL, Turn
from ledgerstone import AsyncStore
from ledgerstone.adapters.pydantic_ai import LedgerSavedConversations


def messages(turn: Turn) -> list[Any]:
    usage = RequestUsage(input_tokens=turn.input_tokens, output_tokens=turn.output_tokens)
    call = ToolCallPart(TOOL, turn.arguments, tool_call_id=turn.call_id)
    result = ToolReturnPart(TOOL, turn.result, tool_call_id=turn.call_id)
    return [
        ModelRequest(parts=[UserPromptPart(turn.user)]),
        ModelResponse(parts=[TextPart(turn.thought), call], model_name=MODEL),
        ModelRequest(parts=[result]),
        ModelResponse(parts=[TextPart(turn.answer)], usage=usage, model_name=MODEL),
    ]


class Conversations:
    """The history is in the program's hands; every turn it is saved as a whole."""

    def __init__(self, store: Any, close: Callable[[], Any]) -> None:
        self.store = store
        self.on_close = close
        self.held: dict[int, tuple[Any, list[Any]]] = {}

    def create(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            id = f"bench-{number:08d}"
            self.held[number] = (ConversationSummary(id=id, workspace="/bench"), [])

    async def attach(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number not in self.held:
                found = await self._get(number)
                self.held[number] = (found.summary, list(found.messages))

    async def commit(self, number: int, turn: Turn) -> None:
        summary, held = self.held[number]
        held.extend(messages(turn))
        summary = replace(summary, outcome="completed", model=MODEL)
        self.held[number] = (await self.store.save(summary=summary, messages=held), held)

    def tidy(self) -> None:
        """Each store does so by itself."""

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        self.create([number for number, _ in histories])
        for number, depth in histories:
            summary, held = self.held[number]
            for place in range(depth):
                held.extend(messages(turns[(number + place) % len(turns)]))
            self.held[number] = (await self.store.save(summary=summary, messages=held), held)
        return sum(depth for _, depth in histories)

    async def load(self, number: int) -> Any:
        return (await self._get(number)).messages

    async def last(self, number: int, count: int) -> Any:
        return (await self.load(number))[-count:]

    async def close(self) -> None:
        await settle(self.on_close())

    async def _get(self, number: int) -> Any:
        return await self.store.get(conversation_id=f"bench-{number:08d}")


def open_stock(path: Path) -> Conversations:
    return Conversations(SqliteConversationStore(database=path), lambda: None)


async def _ours(place: str) -> Conversations:
    store = await AsyncStore.open(place)
    return Conversations(LedgerSavedConversations(store), store.close)


async def open_ours(path: Path) -> Conversations:
    return await _ours(str(path))


async def open_pg_ours(path: Path) -> Conversations:
    return await _ours(url(path))
