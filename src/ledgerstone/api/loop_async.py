"""What an event loop does differently: waiting, work that would block it, work nobody waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Generic, TypeVar

from ledgerstone.errors import LedgerstoneError

T = TypeVar("T")
S = TypeVar("S", bound="Any")

Soon = Awaitable[T]


async def pause(seconds: float) -> None:
    """Let this much time pass."""
    await asyncio.sleep(seconds)


async def offload(work: Callable[[], T]) -> T:
    """Run blocking work beside the loop; cancelling the caller does not interrupt it."""
    return await asyncio.to_thread(work)


async def each(
    call: Callable[[S], Coroutine[Any, Any, T]], given: Sequence[S]
) -> list[T | LedgerstoneError]:
    """All of them side by side: what each answers, or its error in its place."""
    found = await asyncio.gather(*(call(one) for one in given), return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException) and not isinstance(one, LedgerstoneError):
            raise one
    return found  # type: ignore[return-value]


# The loop keeps only weak references to tasks; what is given back must get there all the same.
_finishing: set[asyncio.Task[None]] = set()


def finish(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task that runs to its end, also when nobody waits for it."""
    task = asyncio.create_task(work)
    _finishing.add(task)
    task.add_done_callback(_finishing.discard)
    return task


async def settled() -> None:
    """Wait until everything of this loop that was to be given back is: before it ends."""
    loop = asyncio.get_running_loop()
    ours = {task for task in list(_finishing) if task.get_loop() is loop}
    if ours:
        await asyncio.wait(ours)


class Opening(Generic[S]):
    """A store that is being opened: await it, or enter it with `async with`."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._store: S | None = None

    def __await__(self) -> Generator[Any, None, S]:
        # A store whose opener was cancelled is closed by its finalizer.
        return offload(self._make).__await__()

    async def __aenter__(self) -> S:
        self._store = await self
        return self._store

    async def __aexit__(self, *error: object) -> None:
        if self._store is not None:
            await self._store.close()


def opening(make: Callable[[], S]) -> Opening[S]:
    """Open in a thread, when it is awaited or entered."""
    return Opening(make)
