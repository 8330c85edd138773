"""OpenAI Agents: a Runner with a scripted model, on whatever session."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from agents import (
    Agent,
    Model,
    ModelResponse,
    Runner,
    SessionSettings,
    SQLiteSession,
    Usage,
    function_tool,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from bench.contender import History, settle
from bench.postgres.place import sqlalchemy_url, url
from bench.work import TOOL, Turn
from ledgerstone import AsyncStore
from ledgerstone.adapters.openai_agents import LedgerSession

KEPT: Final[dict[str, list[Any]]] = defaultdict(list)
"""Outlives its contender, which is closed and opened again as if there were a file."""


def items(turn: Turn) -> list[Any]:
    """A turn as a Runner stores it: the keys, and their order, are the SDK's."""
    said = [*_called(turn), _said(turn.answer, f"msg_{turn.call_id}_2")]
    thought, call, answer = (one.model_dump(exclude_unset=True) for one in said)
    result = {"call_id": turn.call_id, "output": turn.result, "type": "function_call_output"}
    return [{"content": turn.user, "role": "user"}, thought, call, result, answer]


class ListSession:
    """What a Runner costs by itself: the items stay the objects they are."""

    def __init__(self, name: str) -> None:
        self.session_id = name
        self.session_settings = SessionSettings()
        self.items = KEPT[name]

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return list(self.items if limit is None else self.items[-limit:])

    async def add_items(self, items: list[Any]) -> None:
        self.items.extend(items)

    async def pop_item(self) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items.clear()


class Scripted(Model):
    """Calls the tool, then answers, as the turn in hand says."""

    turn: Turn

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **more: Any
    ) -> ModelResponse:
        turn = self.turn
        answered = input[-1].get("type") == "function_call_output"
        answer = _said(turn.answer, f"msg_{turn.call_id}_2")
        output: list[Any] = [answer] if answered else _called(turn)
        tokens = turn.input_tokens, turn.output_tokens
        usage = Usage(
            requests=1, input_tokens=tokens[0], output_tokens=tokens[1], total_tokens=sum(tokens)
        )
        return ModelResponse(output=output, usage=usage, response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        raise RuntimeError("nobody streams here")


def _called(turn: Turn) -> list[Any]:
    call = ResponseFunctionToolCall(
        name=TOOL,
        arguments=json.dumps(turn.arguments),
        call_id=turn.call_id,
        type="function_call",
        id=f"fc_{turn.call_id}",
    )
    return [_said(turn.thought, f"msg_{turn.call_id}_1"), call]


def _said(text: str, id: str) -> ResponseOutputMessage:
    part = ResponseOutputText(text=text, annotations=[], type="output_text", logprobs=[])
    return ResponseOutputMessage(
        id=id, role="assistant", status="completed", type="message", content=[part]
    )


class Runners:
    """One agent, and a session object per conversation."""

    def __init__(self, make: Callable[[str], Any], close: Callable[[], Any] | None = None) -> None:
        self.make = make
        self.on_close = close
        self.sessions: dict[int, Any] = {}
        self.model = Scripted()

        @function_tool(name_override=TOOL)
        def search(query: str, limit: int) -> str:
            """Search."""
            return self.model.turn.result

        self.agent = Agent(name="bench", model=self.model, tools=[search])

    def create(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.sessions[number] = self.make(f"bench-{number:08d}")

    def attach(self, numbers: Sequence[int]) -> None:
        self.create([number for number in numbers if number not in self.sessions])

    async def commit(self, number: int, turn: Turn) -> None:
        self.model.turn = turn
        await Runner.run(self.agent, turn.user, session=self.sessions[number])

    def tidy(self) -> None:
        """Each store does so by itself."""

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        self.create([number for number, _ in histories])
        for number, depth in histories:
            held = [turns[(number + place) % len(turns)] for place in range(depth)]
            await self.sessions[number].add_items([item for turn in held for item in items(turn)])
        return sum(depth for _, depth in histories)

    async def load(self, number: int) -> Any:
        self.attach([number])
        return await self.sessions[number].get_items()

    async def last(self, number: int, count: int) -> Any:
        self.attach([number])
        return await self.sessions[number].get_items(limit=count)

    async def close(self) -> None:
        if self.on_close is not None:
            await settle(self.on_close())
            return
        for session in self.sessions.values():
            session.close()


def open_list(path: Path) -> Runners:
    return Runners(ListSession, lambda: None)


def open_stock(path: Path) -> Runners:
    return Runners(lambda name: SQLiteSession(name, path))


async def open_pg_stock(path: Path) -> Runners:
    from agents.extensions.memory import SQLAlchemySession
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(sqlalchemy_url(path, "asyncpg"))
    # The tables are made by the first call; after that no session looks for them.
    await SQLAlchemySession("nobody", engine=engine, create_tables=True).get_items(limit=1)
    return Runners(lambda name: SQLAlchemySession(name, engine=engine), engine.dispose)


async def _ours(place: str) -> Runners:
    store = await AsyncStore.open(place)
    return Runners(lambda name: LedgerSession(store, name), store.close)


async def open_ours(path: Path) -> Runners:
    return await _ours(str(path))


async def open_pg_ours(path: Path) -> Runners:
    return await _ours(url(path))
