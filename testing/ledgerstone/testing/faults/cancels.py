"""A coroutine that is cancelled at each of its awaits in turn.

`early` cancels what the coroutine waits for, as Task.cancel does while it waits. `late` lets it
happen and cancels before the result arrives: the answer came, and nobody was there to take it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Generic, Literal, TypeVar

import msgspec

A = TypeVar("A")
Mode = Literal["early", "late"]

MODES: tuple[Mode, ...] = ("early", "late")
AWAITS_MAX = 1000


class Cut(msgspec.Struct, Generic[A], frozen=True):
    """How one attempt ended; `answer` only when it was not cancelled."""

    at: int
    cancelled: bool
    answer: A | None = None


class _Cutting(Generic[A]):
    """Drives a coroutine and cancels it at its n-th suspension."""

    def __init__(self, coroutine: Coroutine[Any, Any, A], at: int, mode: Mode) -> None:
        self._coroutine = coroutine
        self._at = at
        self._mode = mode
        self.reached = False

    def __await__(self) -> Generator[Any, Any, A]:
        step: Callable[[], Any] = lambda: self._coroutine.send(None)  # noqa: E731
        count = 0
        while True:
            try:
                waiting = step()
            except StopIteration as done:
                return done.value  # type: ignore[no-any-return]
            count += 1
            step = lambda: self._coroutine.send(None)  # noqa: E731
            if count == self._at:
                self.reached = True
                if self._mode == "late" or not isinstance(waiting, asyncio.Future):
                    step = self._throw
                else:
                    waiting.cancel()
            try:
                yield waiting
            except BaseException as error:
                # The task itself was cancelled (a lost lease does so): pass it on.
                step = _thrower(self._coroutine, error)

    def _throw(self) -> Any:
        return self._coroutine.throw(asyncio.CancelledError())


def _thrower(coroutine: Coroutine[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: coroutine.throw(error)


async def cut_at(coroutine: Coroutine[Any, Any, A], at: int, mode: Mode) -> Cut[A]:
    """Cancel the coroutine at its n-th await; it may also end before it gets there."""
    cutting = _Cutting(coroutine, at, mode)

    async def drive() -> A:
        return await cutting

    try:
        answer = await asyncio.ensure_future(drive())
    except asyncio.CancelledError:
        if not cutting.reached:
            raise
        return Cut(at, cancelled=True)
    return Cut(at, cancelled=cutting.reached, answer=answer)


async def cut_everywhere(
    make: Callable[[int], Coroutine[Any, Any, A]], mode: Mode
) -> AsyncIterator[Cut[A]]:
    """One attempt per await of `make(n)`, n = 1, 2, ...; the last one is not cancelled."""
    for at in range(1, AWAITS_MAX):
        cut = await cut_at(make(at), at, mode)
        yield cut
        if not cut.cancelled:
            return
    raise AssertionError(f"the coroutine still waits after {AWAITS_MAX} awaits")
