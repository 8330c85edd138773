"""Writes that are waited for, also by a caller that was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def settled(work: Coroutine[Any, Any, T]) -> T:
    """The outcome of a write; a cancellation goes on only when the write has come to its end.

    The SDK takes back what a cancelled run wrote, and must not meet a write that is on its way.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # Looked at, or asyncio would complain that nobody did.
    raise cancelled
