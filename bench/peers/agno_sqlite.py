"""agno: a run row with its messages and a session row, as its agent saves them.

The agent calls this database from its event loop without a thread, and so does this file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from agno.db.base import SessionType
from agno.db.sqlite import SqliteDb
from agno.metrics import RunMetrics
from agno.models.message import Message
from agno.run.agent import RunOutput
from agno.run.base import RunStatus
from agno.session import AgentSession

from bench.contender import History
from bench.work import MODEL, TOOL, Turn

AGENT = "agent-1"
MESSAGES_PER_RUN = 4


def run(session: str, turn: Turn) -> Any:
    call = {
        "id": turn.call_id,
        "type": "function",
        "function": {"name": TOOL, "arguments": json.dumps(turn.arguments)},
    }
    tokens = turn.input_tokens + turn.output_tokens
    return RunOutput(
        run_id=str(uuid4()),
        agent_id=AGENT,
        session_id=session,
        model=MODEL,
        content=turn.answer,
        status=RunStatus.completed,
        metrics=RunMetrics(
            input_tokens=turn.input_tokens, output_tokens=turn.output_tokens, total_tokens=tokens
        ),
        messages=[
            Message(role="user", content=turn.user),
            Message(role="assistant", content=turn.thought, tool_calls=[call]),
            Message(role="tool", content=turn.result, tool_call_id=turn.call_id, tool_name=TOOL),
            Message(role="assistant", content=turn.answer),
        ],
    )


class AgnoSessions:
    """One database object; the session rows are kept, the runs are not."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.sessions: dict[int, Any] = {}

    def create(self, numbers: Sequence[int]) -> None:
        self.attach(numbers)
        for number in numbers:
            self.db.upsert_session(self.sessions[number])

    def attach(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number not in self.sessions:
                self.sessions[number] = AgentSession(
                    session_id=f"bench-{number:08d}",
                    agent_id=AGENT,
                    user_id="ada",
                    session_data={"session_state": {}},
                    created_at=int(time.time()),
                )

    def commit(self, number: int, turn: Turn) -> None:
        session = self.sessions[number]
        self.db.upsert_run(run(session.session_id, turn), session.session_id, user_id="ada")
        self.db.upsert_session(session)

    def tidy(self) -> None:
        """SQLite checkpoints by itself."""

    def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        self.create([number for number, _ in histories])
        for number, depth in histories:
            for place in range(depth):
                self.commit(number, turns[(number + place) % len(turns)])
        return sum(depth for _, depth in histories)

    def load(self, number: int) -> Sequence[object]:
        found: list[object] = self._get(number, None).get_messages()
        return found

    def last(self, number: int, count: int) -> Sequence[object]:
        runs = -(-count // MESSAGES_PER_RUN)
        found: list[object] = self._get(number, runs).get_messages()
        return found[-count:]

    def close(self) -> None:
        self.db.close()

    def _get(self, number: int, runs: int | None) -> Any:
        return self.db.get_session(
            f"bench-{number:08d}", session_type=SessionType.AGENT, runs_limit=runs
        )


def open_agno(path: Path) -> AgnoSessions:
    return AgnoSessions(SqliteDb(db_file=str(path)))
