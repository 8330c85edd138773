"""The blocking twin of loop_async.py: no event loop, no thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from ledgerstone.errors import LedgerstoneError

T = TypeVar("T")
S = TypeVar("S")

Soon = Annotated[T, "now"]
Opening = Annotated[S, "opened at once"]


def pause(seconds: float) -> None:
    """Let this much time pass."""
    time.sleep(seconds)


def offload(work: Callable[[], T]) -> T:
    """Just do it: the caller waits anyway."""
    return work()


def each(call: Callable[[S], T], given: Sequence[S]) -> list[T | LedgerstoneError]:
    """One after the other: what each answers, or its error in its place."""
    found: list[T | LedgerstoneError] = []
    for one in given:
        try:
            found.append(call(one))
        except LedgerstoneError as error:
            found.append(error)
    return found


def opening(make: Callable[[], S]) -> Opening[S]:
    """Open now."""
    return make()
