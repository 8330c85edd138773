"""openai-agents: a session object per conversation, on one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession

from bench.contender import History, fill_by_commits
from bench.work import TOOL, Turn

Make = Callable[[str], Any]


def items(turn: Turn) -> list[dict[str, Any]]:
    """The turn as the Responses API words it; a tool call stands beside its message."""
    return [
        {"role": "user", "content": turn.user},
        _said(turn.thought),
        {
            "type": "function_call",
            "call_id": turn.call_id,
            "name": TOOL,
            "arguments": json.dumps(turn.arguments),
        },
        {"type": "function_call_output", "call_id": turn.call_id, "output": turn.result},
        _said(turn.answer),
    ]


def _said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


class OpenAISessions:
    """Kept open, one per conversation, as a service would."""

    def __init__(self, make: Make) -> None:
        self.make = make
        self.sessions: dict[int, Any] = {}

    def create(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.sessions[number] = self.make(f"bench-{number:08d}")

    def attach(self, numbers: Sequence[int]) -> None:
        self.create([number for number in numbers if number not in self.sessions])

    async def commit(self, number: int, turn: Turn) -> None:
        await self.sessions[number].add_items(items(turn))

    def tidy(self) -> None:
        """SQLite checkpoints by itself."""

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        return await fill_by_commits(self, histories, turns)

    async def load(self, number: int) -> Sequence[object]:
        self.attach([number])
        found: list[object] = await self.sessions[number].get_items()
        return found

    async def last(self, number: int, count: int) -> Sequence[object]:
        self.attach([number])
        found: list[object] = await self.sessions[number].get_items(limit=count)
        return found

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()


def open_plain(path: Path) -> OpenAISessions:
    return OpenAISessions(lambda name: SQLiteSession(name, path))


def open_advanced(path: Path) -> OpenAISessions:
    return OpenAISessions(
        lambda name: AdvancedSQLiteSession(session_id=name, db_path=path, create_tables=True)
    )
