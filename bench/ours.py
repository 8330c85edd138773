"""Ledgerstone as a contender: the public API only, blocking and async.

Imported only when the package is there, so that the floors can be timed without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from bench.work import MODEL, TOOL, Turn
from ledgerstone import AsyncStore, Message, Store, Usage, tool_call

FILLERS: Final = 64


def session_id(number: int) -> str:
    return f"bench-{number:08d}"


class Ours:
    """The blocking store, in the caller's thread."""

    name: Final = "ours, blocking"

    def __init__(self, path: Path) -> None:
        self.store = Store.open(str(path))

    def create(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.store.sessions.create(id=session_id(number))

    def commit(self, number: int, turn: Turn) -> None:
        draft = self.store.turns.begin(session_id(number))
        draft.run("done")  # first, so that the messages carry its id
        draft.user(turn.user)
        draft.assistant([turn.thought, tool_call(TOOL, turn.arguments, id=turn.call_id)])
        draft.tool(turn.call_id, turn.result, tool_name=TOOL)
        draft.assistant(turn.answer)
        draft.use(MODEL, Usage(turn.input_tokens, turn.output_tokens))
        draft.commit()

    def tidy(self) -> None:
        """The store's own writer checkpoints."""

    def load(self, number: int) -> Sequence[Message]:
        return self.store.messages.history(session_id(number))

    def last(self, number: int, count: int) -> Sequence[Message]:
        return self.store.messages.last(session_id(number), count)

    def close(self) -> None:
        self.store.close()


class OursAsync:
    """The async store, from one event loop."""

    name: Final = "ours, async"

    def __init__(self, store: AsyncStore) -> None:
        self.store = store

    @classmethod
    async def open(cls, path: Path) -> OursAsync:
        return cls(await AsyncStore.open(str(path)))

    async def create(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            await self.store.sessions.create(id=session_id(number))

    async def commit(self, number: int, turn: Turn) -> None:
        draft = self.store.turns.begin(session_id(number))
        draft.run("done")  # first, so that the messages carry its id
        draft.user(turn.user)
        draft.assistant([turn.thought, tool_call(TOOL, turn.arguments, id=turn.call_id)])
        draft.tool(turn.call_id, turn.result, tool_name=TOOL)
        draft.assistant(turn.answer)
        draft.use(MODEL, Usage(turn.input_tokens, turn.output_tokens))
        await draft.commit()

    def tidy(self) -> None:
        """The store's own writer checkpoints."""

    async def load(self, number: int) -> Sequence[Message]:
        return await self.store.messages.history(session_id(number))

    async def last(self, number: int, count: int) -> Sequence[Message]:
        return await self.store.messages.last(session_id(number), count)

    async def close(self) -> None:
        await self.store.close()


async def fill(path: Path, sessions: Sequence[tuple[int, int]], turns: Sequence[Turn]) -> int:
    """Give each (session, depth) its history through the public API, sessions side by side."""
    ours = await OursAsync.open(path)
    await ours.create(number for number, _ in sessions)
    queue = list(sessions)

    async def deepen() -> int:
        count = 0
        while queue:
            number, depth = queue.pop()
            for place in range(depth):
                await ours.commit(number, turns[(number + place) % len(turns)])
            count += depth
        return count

    counts = await asyncio.gather(*(deepen() for _ in range(FILLERS)))
    await ours.close()
    return sum(counts)
