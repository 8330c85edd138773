"""A blocking call beside the event loop, in a thread that never keeps the process alive.

A thread cannot be cancelled. An executor's threads are waited for when the interpreter ends, so
a handler that hangs would keep a worker from ending; these are left behind.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress


class Call:
    """One call under way. Cancelling `result` leaves it running; `ended` tells when it is over."""

    def __init__(self, work: Callable[[], None], name: str) -> None:
        loop = asyncio.get_running_loop()
        self._over: asyncio.Future[BaseException | None] = loop.create_future()
        context = contextvars.copy_context()

        def run() -> None:
            error: BaseException | None = None
            try:
                context.run(work)
            except BaseException as raised:  # Whatever it is, it belongs to the one who waits.
                error = raised
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                loop.call_soon_threadsafe(self._tell, error)

        threading.Thread(target=run, name=name, daemon=True).start()

    def _tell(self, error: BaseException | None) -> None:
        self._over.set_result(error)

    async def result(self) -> None:
        """Wait for the end, and raise what the call raised."""
        error = await asyncio.shield(self._over)
        if error is not None:
            raise error

    async def ended(self) -> None:
        """Wait for the end, however it was."""
        await asyncio.wait((self._over,))
