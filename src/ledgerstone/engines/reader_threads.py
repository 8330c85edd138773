"""Threads that read for an event loop.

An executor of the standard library makes two futures and three locks for every call; a short read
is done in less time than that. Here a read is one item in a queue and one call back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import asyncio

Work: TypeAlias = Callable[[Any], Any]
_Item: TypeAlias = "tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], Work, Any] | None"


class ReaderThreads:
    """A few daemon threads, started when they are first needed."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        self._busy = 0

    async def run(self, work: Work, argument: Any) -> Any:
        """What `work(argument)` answers or raises, in another thread."""
        import asyncio  # Here: a blocking program never needs it.

        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._busy += 1
        try:
            if self._busy > len(self._threads) < self._count:
                self._start()
            self._queue.put((loop, future, work, argument))
            return await future
        finally:
            self._busy -= 1

    def close(self) -> None:
        """Finish what was asked for, then end all threads."""
        with self._starting:
            threads, self._count = self._threads, 0
        for _ in threads:
            self._queue.put(None)
        for thread in threads:
            thread.join()

    def _start(self) -> None:
        with self._starting:
            if len(self._threads) < self._count:
                name = f"ledgerstone-reader-{len(self._threads)}"
                thread = threading.Thread(target=self._serve, name=name, daemon=True)
                thread.start()
                self._threads.append(thread)

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            loop, future, work, argument = item
            if future.cancelled():
                continue
            answer = error = None
            try:
                answer = work(argument)
            except BaseException as raised:  # Whatever it is, it belongs to the one who waits.
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, future, answer, error)
            except RuntimeError:
                continue  # The loop is closed: nobody waits any more.
            finally:
                del item, future, answer, error


def _settle(future: asyncio.Future[Any], answer: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)
