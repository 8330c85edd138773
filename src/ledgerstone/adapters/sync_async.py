"""An adapter is written once, for sync and async callers, over a sync or an async store.

An adapter's work is a coroutine that awaits `of(...)` around every call of the store. Over a
blocking store it never really waits, so a blocking caller runs it at once and an async caller runs
it in a thread; over an async store it runs on the store's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import wraps
from inspect import isawaitable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from ledgerstone.api.store import AsyncStore
from ledgerstone.api_sync.store import Store
from ledgerstone.errors import InvalidValue, Misuse
from ledgerstone.trampoline import run_now

P = ParamSpec("P")
T = TypeVar("T")
AnyStore: TypeAlias = Store | AsyncStore


async def of(answer: T | Awaitable[T]) -> T:
    """The answer of a sync or async store."""
    return await answer if isawaitable(answer) else answer


async def each(found: Iterable[T] | AsyncIterator[T]) -> AsyncIterator[T]:
    """What a sync or async store iterates over."""
    if isinstance(found, AsyncIterator) or hasattr(found, "__aiter__"):
        async for one in found:
            yield one
        return
    for one in found:
        yield one


class StoreRunner:
    """Runs coroutines over a store for sync and async callers."""

    def __init__(self, store: AnyStore) -> None:
        if not isinstance(store, Store | AsyncStore):
            raise InvalidValue("store", f"an open store expected, got {type(store).__name__}")
        self._blocking = isinstance(store, Store)
        self._loop: asyncio.AbstractEventLoop | None = None
        if not self._blocking:
            self._loop = _running()

    async def run_async(self, work: Coroutine[Any, Any, T]) -> T:
        """For an async caller: the loop goes on while the store works."""
        if self._blocking:
            try:
                return await asyncio.to_thread(run_now, work)
            finally:
                # Cancelled before a thread took it up, it never runs; one that runs stays open.
                with suppress(ValueError):
                    work.close()
        here = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = here
        if self._loop is here:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def run_sync(self, work: Coroutine[Any, Any, T]) -> T:
        """For a blocking caller; Misuse on the async store's loop, which would wait for itself."""
        if self._blocking:
            return run_now(work)
        if self._loop is None or _running() is self._loop:
            work.close()
            raise Misuse(
                "a blocking call over an async store needs its event loop in another thread: use "
                "the async method, or open the store with Store.open"
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class _OverStore(Protocol):
    _runner: StoreRunner


S = TypeVar("S", bound=_OverStore)


def runs_async(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Make a method that awaits `of(...)` one for async callers: see `StoreRunner.run_async`."""

    @wraps(method)
    async def run(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._runner.run_async(method(self, *args, **options))

    return run


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
