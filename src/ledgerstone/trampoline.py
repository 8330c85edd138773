"""Runs a coroutine that never suspends: sync and async callers share one copy of the rules."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result; RuntimeError if it awaits anything that really waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("a handler suspended: it may await its transaction and nothing else")
