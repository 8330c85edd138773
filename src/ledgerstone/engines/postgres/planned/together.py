"""Many commands of one caller at once: as few round trips as their groups need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ledgerstone.commands import Command
from ledgerstone.errors import LedgerstoneError
from ledgerstone.trampoline import run_now

if TYPE_CHECKING:
    import asyncio

    from ledgerstone.engines.postgres.backend import Connections


def write_together(face: Connections, commands: Sequence[Command[Any]]) -> list[Any]:
    """What each answers, or its error in its place; for the blocking face."""
    found: list[Any] = [None] * len(commands)
    lines: dict[Any, list[int]] = {}
    for n, command in enumerate(commands):
        lines.setdefault(face.fast(command), []).append(n)
    for line, places in lines.items():
        mine = [commands[n] for n in places]
        answers = _one_by_one(face, mine) if line is None else line.write_many(mine)
        for n, answer in zip(places, answers, strict=True):
            found[n] = answer
    return found


def _one_by_one(face: Connections, commands: Sequence[Command[Any]]) -> list[Any]:
    found: list[Any] = []
    for command in commands:
        try:
            found.append(run_now(face.slow.write(command)))
        except LedgerstoneError as error:
            found.append(error)
    return found


async def await_together(face: Connections, commands: Sequence[Command[Any]]) -> list[Any]:
    """The same on an event loop."""
    begun: list[asyncio.Future[Any]] = []
    found: list[Any] = []
    try:
        for command in commands:
            begun.append(await _begin(face, command))
        for one in begun:
            try:
                found.append(await one)
            except LedgerstoneError as error:
                found.append(error)
    finally:
        # Nobody waits for these any more; the commands go on.
        for one in begun[len(found) :]:
            one.cancel()
    return found


async def _begin(face: Connections, command: Command[Any]) -> asyncio.Future[Any]:
    try:
        return await face.begin(command)
    except LedgerstoneError as error:
        import asyncio

        refused: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        refused.set_exception(error)
        return refused
