"""What every contender can do, and the card that says where to find it."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeVar, cast

import msgspec

from bench.work import Turn

T = TypeVar("T")
Kind = Literal["floor", "ours", "peer"]
History = tuple[int, int]
"""A session's number and how many turns it holds."""


class Contender(Protocol):
    """Anything that commits turns and reads them back; the blocking ones return no awaitable."""

    def create(self, numbers: Sequence[int]) -> Awaitable[None] | None: ...

    def attach(self, numbers: Sequence[int]) -> Awaitable[None] | None:
        """Get hold of sessions that exist, before any clock runs."""

    def commit(self, number: int, turn: Turn) -> Awaitable[None] | None: ...

    def tidy(self) -> None:
        """What may be done after an answer, outside the timed part."""

    def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> Awaitable[int] | int:
        """Create sessions with their histories, untimed, and say how many turns were written."""

    def load(self, number: int) -> Awaitable[Sequence[object]] | Sequence[object]: ...

    def last(self, number: int, count: int) -> Awaitable[Sequence[object]] | Sequence[object]: ...

    def close(self) -> Awaitable[None] | None: ...


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """The card of a contender: enough to start it in a process of its own."""

    key: str
    title: str
    kind: Kind
    opener: str
    needs: str = ""
    per_turn: int = 4
    slow: bool = False
    rewrites: bool = False
    note: str = ""


async def open_contender(entry: Entry, path: Path) -> Contender:
    """Import what the card names, here and not earlier, and open the file with it."""
    module, name = entry.opener.split(":")
    opened = getattr(importlib.import_module(module), name)(path)
    return cast(Contender, await settle(opened))


async def settle(answer: Awaitable[T] | T) -> T:
    """What a blocking contender returned, or what an async one will."""
    if inspect.isawaitable(answer):
        return cast(T, await answer)
    return answer


async def fill_by_commits(
    contender: Contender, histories: Sequence[History], turns: Sequence[Turn]
) -> int:
    """The histories as ordinary commits, session after session."""
    await settle(contender.create([number for number, _ in histories]))
    count = 0
    for number, depth in histories:
        for place in range(depth):
            await settle(contender.commit(number, turns[(number + place) % len(turns)]))
        count += depth
    return count


async def fill_side_by_side(
    contender: Contender, histories: Sequence[History], turns: Sequence[Turn]
) -> int:
    """The same, all sessions at once: for those whose server takes several commits at a time."""

    async def deepen(number: int, depth: int) -> int:
        for place in range(depth):
            await settle(contender.commit(number, turns[(number + place) % len(turns)]))
        return depth

    await settle(contender.create([number for number, _ in histories]))
    deep = [history for history in histories if history[1]]
    return sum(await asyncio.gather(*(deepen(number, depth) for number, depth in deep)))
