"""What an event loop does differently: waiting, work beside a block, work that cannot be stopped.

Everything else of the API is written once; this file has a twin, loop_blocking.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Generic, TypeVar

from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.work import Holding, Taken

T = TypeVar("T")
S = TypeVar("S", bound="Any")

Soon = Awaitable[T]
INTERRUPTED = asyncio.CancelledError
"""How a caller that waits is interrupted."""


async def pause(seconds: float) -> None:
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


def finish(work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
    """A task that runs to its end, also when nobody waits for it."""
    task = asyncio.create_task(work())
    _finishing.add(task)
    task.add_done_callback(_finishing.discard)
    return task


async def finished(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Wait for work that runs to its end also when the caller is cancelled."""
    await asyncio.shield(finish(work))


async def answer_or_undo(
    work: Coroutine[Any, Any, T], undo: Callable[[T], Coroutine[Any, Any, None]]
) -> T:
    """What `work` answers; when the caller is cancelled meanwhile, the answer is undone."""
    task = asyncio.create_task(work)

    async def undo_later() -> None:
        # What cannot be undone now ends by itself when its lease runs out.
        with suppress(LedgerstoneError):
            await undo(await task)

    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        finish(undo_later)
        raise


async def settled() -> None:
    """Wait until everything of this loop that was to be given back is: before it ends."""
    loop = asyncio.get_running_loop()
    ours = {task for task in list(_finishing) if task.get_loop() is loop}
    if ours:
        await asyncio.wait(ours)


class Signal:
    """Ends a sleep early, once it is set."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Sleep so long, or until it is set; whether it is set."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)
        return self._event.is_set()


class Background:
    """A task beside the block that makes it. If `work` answers True, the block is cancelled."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, bool]], name: str) -> None:
        block = asyncio.current_task()
        assert block is not None, "a coroutine runs inside a task"
        self._block, self._cancelling = block, block.cancelling()
        self._task = asyncio.create_task(self._run(work), name=name)

    async def _run(self, work: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        if await work():
            self._block.cancel()

    async def join(self) -> None:
        """Wait for its end. It is not cancelled: what is under way must be known to be over."""
        await asyncio.wait((self._task,))

    def ends_block(self, error: BaseException | None) -> bool:
        """Whether a block that it cancelled ends by that, and not by an `error` of its own."""
        ours = self._block.uncancel() <= self._cancelling
        return error is None or (ours and isinstance(error, asyncio.CancelledError))


class Taking:
    """Work that is being taken: await it for what there is now, or enter it and wait for some."""

    def __init__(
        self,
        take: Callable[[], Coroutine[Any, Any, Taken | None]],
        hold: Callable[[], AbstractAsyncContextManager[Holding]],
    ) -> None:
        self._take = take
        self._hold = hold

    def __await__(self) -> Generator[Any, None, Taken | None]:
        return self._take().__await__()

    async def __aenter__(self) -> Holding:
        self._held = self._hold()
        return await self._held.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any
    ) -> None:
        await self._held.__aexit__(kind, error, trace)


def taking(
    take: Callable[[], Coroutine[Any, Any, Taken | None]],
    hold: Callable[[], AbstractAsyncContextManager[Holding]],
) -> Taking:
    return Taking(take, hold)


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
    return Opening(make)
