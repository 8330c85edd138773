"""Children that can be killed at any moment, and what they said before.

They are forked from a server process that has imported everything and holds no store, no thread
and no lock: a child is there in a few milliseconds and inherits nothing that it could damage.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from select import select
from typing import Any

from ledgerstone.clock import monotonic_s

# What is not installed is passed over.
PRELOAD = [
    "ledgerstone",
    "ledgerstone.testing.faults.victims",
    "ledgerstone.testing.faults.races",
    "ledgerstone.engines.postgres.backend",
    "ledgerstone.engines.postgres.drivers.psycopg",
    "ledgerstone.engines.postgres.drivers.asyncpg",
]
JOIN_S = 30.0

_FAILED = b"!"
_SAID = b"+"

Say = Callable[[bytes], None]
Target = Callable[..., None]


class ChildFailed(AssertionError):
    """The child raised instead of being killed; the text is its traceback."""


@cache
def server() -> ForkServerContext:
    """The context whose processes come out of the prepared server."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


class Child:
    """A process that runs `target(say, *arguments)`; both must be importable there."""

    def __init__(self, target: Target, *arguments: Any) -> None:
        self._ears, mouth = server().Pipe(duplex=False)
        self._process = server().Process(target=_live, args=(mouth, target, arguments), daemon=True)
        self._process.start()
        mouth.close()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def hear(self, wait_s: float) -> Iterator[bytes]:
        """What it says until so much time has passed, or until it ends; ChildFailed if it broke."""
        end_s = monotonic_s() + wait_s
        # Not `poll`: it waits in whole milliseconds, so what a child that says something more often
        # is doing when the time is over would always be the same: it has just said something.
        while select([self._ears], [], [], max(0.0, end_s - monotonic_s()))[0]:
            try:
                data = self._ears.recv_bytes()
            except (EOFError, ConnectionResetError):
                return
            if data[:1] == _FAILED:
                raise ChildFailed(data[1:].decode("utf-8", "replace"))
            yield data[1:]

    def kill(self) -> list[bytes]:
        """kill -9; answers what it had said and nobody had heard. Killing the dead is fine."""
        self._process.kill()
        try:
            return list(self.hear(JOIN_S))
        finally:
            self._process.join(JOIN_S)
            self._process.close()
            self._ears.close()


def _live(mouth: Connection, target: Target, arguments: tuple[Any, ...]) -> None:
    lock = threading.Lock()

    def say(data: bytes) -> None:
        # Threads of one child share the pipe; a message must not be torn by a neighbour's.
        with lock:
            mouth.send_bytes(_SAID + data)

    try:
        target(say, *arguments)
    except BaseException:
        mouth.send_bytes(_FAILED + traceback.format_exc().encode())
    mouth.close()
