"""LangGraph: the calls that a compiled graph makes to its saver, recorded once and replayed.

A graph of agent, tool, agent makes five `aput` and four `aput_writes` per turn, or one `aput` with
durability="exit". The graph's own time is left out. 30 turns of a real graph took 271,428 and
55,569 B per turn on disk, replayed 271,019 and 55,296. Each checkpoint holds all messages again, so
one checkpoint puts a session at its depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiosqlite
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from bench.contender import History
from bench.work import TOOL, Turn

# The node that runs next after each checkpoint of a turn; the first one holds the input.
NEXT_NODES = ("agent", "tool", "agent", None)


def messages(turn: Turn) -> list[Any]:
    call = {"name": TOOL, "args": turn.arguments, "id": turn.call_id}
    usage = {
        "input_tokens": turn.input_tokens,
        "output_tokens": turn.output_tokens,
        "total_tokens": turn.input_tokens + turn.output_tokens,
    }
    return [
        HumanMessage(turn.user, id=str(uuid4())),
        AIMessage(turn.thought, tool_calls=[call], id=str(uuid4())),
        ToolMessage(turn.result, tool_call_id=turn.call_id, name=TOOL, id=str(uuid4())),
        AIMessage(turn.answer, usage_metadata=usage, id=str(uuid4())),
    ]


class Thread:
    """Where one conversation stands: what a running graph has in its hands."""

    def __init__(self, number: int) -> None:
        self.config: dict[str, Any] = {
            "configurable": {"thread_id": f"bench-{number:08d}", "checkpoint_ns": ""}
        }
        self.messages: list[Any] = []
        self.versions: dict[str, Any] = {}
        self.seen: dict[str, Any] = {"__input__": {}}
        self.step = -2


class LangGraphThreads:
    """One saver on one connection, as `from_conn_string` makes it."""

    def __init__(self, saver: Any, *, every_step: bool) -> None:
        self.saver = saver
        self.every_step = every_step
        self.threads: dict[int, Thread] = {}

    def create(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.threads[number] = Thread(number)

    async def attach(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number not in self.threads:
                self.threads[number] = await self._resume(number)

    async def commit(self, number: int, turn: Turn) -> None:
        thread, said = self.threads[number], messages(turn)
        if not self.every_step:
            thread.messages = thread.messages + said
            thread.step += 5
            await self._put(thread, {}, ["messages"], "loop")
            return
        thread.step += 1
        await self._put(thread, {"__start__": {"messages": said[:1]}}, ["__start__"], "input")
        for message, node in zip(said, NEXT_NODES, strict=True):
            branch = [] if node is None else [(f"branch:to:{node}", None)]
            writes = [("messages", [message]), *branch]
            await self.saver.aput_writes(thread.config, writes, str(uuid4()))
            thread.messages = [*thread.messages, message]
            thread.step += 1
            await self._put(thread, dict(branch), ["messages", *dict(branch)], "loop")

    def tidy(self) -> None:
        """SQLite checkpoints by itself."""

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        self.create([number for number, _ in histories])
        for number, depth in histories:
            thread = self.threads[number]
            for place in range(depth):
                thread.messages += messages(turns[(number + place) % len(turns)])
            if depth:
                await self._put(thread, {}, ["messages"], "loop")
        return sum(depth for _, depth in histories)

    async def load(self, number: int) -> Sequence[object]:
        return (await self._resume(number)).messages

    async def last(self, number: int, count: int) -> Sequence[object]:
        """There is no call for it: the whole list is loaded and cut."""
        return (await self._resume(number)).messages[-count:]

    async def close(self) -> None:
        await self.saver.conn.close()

    async def _put(
        self, thread: Thread, values: dict[str, Any], changed: list[str], source: str
    ) -> None:
        for channel in changed:
            before = thread.versions.get(channel)
            thread.versions[channel] = self.saver.get_next_version(before, None)
        checkpoint = {
            "v": 4,
            "ts": datetime.now(UTC).isoformat(),
            "id": str(uuid6(clock_seq=thread.step)),
            "channel_values": {"messages": thread.messages, **values},
            "channel_versions": dict(thread.versions),
            "versions_seen": thread.seen,
            "updated_channels": changed,
        }
        metadata = {"source": source, "step": thread.step, "parents": {}}
        new = {channel: thread.versions[channel] for channel in changed}
        thread.config = await self.saver.aput(thread.config, checkpoint, metadata, new)

    async def _resume(self, number: int) -> Thread:
        thread = Thread(number)
        found = await self.saver.aget_tuple(thread.config)
        if found is not None:
            thread.config = found.config
            thread.messages = found.checkpoint["channel_values"]["messages"]
            thread.versions = dict(found.checkpoint["channel_versions"])
            thread.seen = found.checkpoint["versions_seen"]
            thread.step = found.metadata["step"]
        return thread


async def open_exit(path: Path) -> LangGraphThreads:
    return LangGraphThreads(AsyncSqliteSaver(await _connect(path)), every_step=False)


async def open_default(path: Path) -> LangGraphThreads:
    return LangGraphThreads(AsyncSqliteSaver(await _connect(path)), every_step=True)


async def _connect(path: Path) -> Any:
    return await aiosqlite.connect(str(path))
