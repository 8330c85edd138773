"""ADK: a session service; each message is an event, appended by a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.adk.events import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from bench.contender import History, fill_by_commits
from bench.work import TOOL, Turn

NAMES = {"app_name": "bench", "user_id": "ada"}


def events(turn: Turn) -> list[Any]:
    """The turn as ADK's runner words it: one invocation, the function response as an event."""
    call = types.FunctionCall(id=turn.call_id, name=TOOL, args=turn.arguments)
    result = types.FunctionResponse(id=turn.call_id, name=TOOL, response={"result": turn.result})
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=turn.input_tokens, candidates_token_count=turn.output_tokens
    )
    said = [
        ("user", "user", [types.Part(text=turn.user)], None),
        ("agent", "model", [types.Part(text=turn.thought), types.Part(function_call=call)], None),
        ("agent", "user", [types.Part(function_response=result)], None),
        ("agent", "model", [types.Part(text=turn.answer)], usage),
    ]
    return [
        Event(
            invocation_id=turn.call_id,
            author=author,
            content=types.Content(role=role, parts=parts),
            usage_metadata=spent,
        )
        for author, role, parts, spent in said
    ]


class AdkSessions:
    """The session objects are kept, as a runner keeps them during a conversation."""

    def __init__(self, service: Any) -> None:
        self.service = service
        self.sessions: dict[int, Any] = {}

    async def create(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.sessions[number] = await self.service.create_session(
                session_id=f"bench-{number:08d}", **NAMES
            )

    async def attach(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number not in self.sessions:
                self.sessions[number] = await self._get(number, 0)

    async def commit(self, number: int, turn: Turn) -> None:
        for event in events(turn):
            await self.service.append_event(self.sessions[number], event)

    def tidy(self) -> None:
        """SQLite checkpoints by itself."""

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        return await fill_by_commits(self, histories, turns)

    async def load(self, number: int) -> Sequence[object]:
        found: list[object] = (await self._get(number, None)).events
        return found

    async def last(self, number: int, count: int) -> Sequence[object]:
        found: list[object] = (await self._get(number, count)).events
        return found

    async def close(self) -> None:
        await self.service.close()

    async def _get(self, number: int, recent: int | None) -> Any:
        config = GetSessionConfig(num_recent_events=recent)
        return await self.service.get_session(
            session_id=f"bench-{number:08d}", config=config, **NAMES
        )


def open_adk(path: Path) -> AdkSessions:
    return AdkSessions(SqliteSessionService(str(path)))
