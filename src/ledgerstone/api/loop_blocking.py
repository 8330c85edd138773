"""The blocking twin of loop_async.py: no event loop, no thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, TypeVar

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


def opening(make: Callable[[], S]) -> Opening[S]:
    """Open now."""
    return make()
