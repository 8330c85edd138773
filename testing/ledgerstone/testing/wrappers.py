"""Backends around backends, for tests: what a store promises must survive them.

    Reopening       closes and reopens the real backend before every read that follows a write
    Peer, Remote    a child process that opens backends, and such a backend seen from here
    TwoProcesses    sends every other call to a backend in the child process

Whatever was acknowledged must come back through each of them, because an answer means durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import fields, force_setattr

from ledgerstone import errors
from ledgerstone.clock import Clock, ManualClock, monotonic_s
from ledgerstone.commands import Command, Query
from ledgerstone.errors import LedgerstoneError, StoreClosed
from ledgerstone.ports.backend import Backend, Progress
from ledgerstone.records.reports import Capabilities, Health, StoreStats

A = TypeVar("A")
Make = Callable[[Clock], Backend]

ANSWER_WAIT_S = 60.0
LOOK_S = 0.005
AT_ONCE = -1


class Wrapper:
    """A backend that hands every call to another one, `inner`; subclasses change one thing.

    The async methods block: a test that wraps a backend does not measure its concurrency.
    """

    inner: Backend

    def __init__(self, inner: Backend) -> None:
        self.inner = inner

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    @property
    def cursor_key(self) -> bytes:
        return self.inner.cursor_key

    def write(self, command: Command[A]) -> A:
        return self.inner.write(command)

    async def awrite(self, command: Command[A]) -> A:
        return self.write(command)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return self.inner.read(queries)

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return self.read(queries)

    def changed(self, seen: int, timeout_s: float) -> int:
        return self.inner.changed(seen, timeout_s)

    async def achanged(self, seen: int, timeout_s: float) -> int:
        return await self.inner.achanged(seen, timeout_s)

    def tenants(self) -> list[str]:
        return self.inner.tenants()

    def health(self) -> Health:
        return self.inner.health()

    def stats(self) -> StoreStats:
        return self.inner.stats()

    def backup(self, target: str, progress: Progress) -> None:
        self.inner.backup(target, progress)

    def close(self) -> None:
        self.inner.close()


class Asked(ABC):
    """Waiting by asking again and again, where the one below cannot be waited for."""

    @abstractmethod
    def number(self) -> int:
        """What changes with every commit."""

    def changed(self, seen: int, timeout_s: float) -> int:
        for pause_s in self._pauses(seen, timeout_s):
            time.sleep(pause_s)
        return self.number()

    async def achanged(self, seen: int, timeout_s: float) -> int:
        for pause_s in self._pauses(seen, timeout_s):
            await asyncio.sleep(pause_s)
        return self.number()

    def _pauses(self, seen: int, timeout_s: float) -> Iterator[float]:
        ends_s = monotonic_s() + timeout_s
        while self.number() == seen and monotonic_s() < ends_s:
            yield LOOK_S


class Reopening(Asked, Wrapper):
    """Nothing may live only in the memory of the backend that wrote it."""

    def __init__(self, factory: Callable[[], Backend]) -> None:
        super().__init__(factory())
        self._before = 0
        self._factory = factory
        self._written = False
        self._closed = False
        # A heartbeat thread writes while the test reads; neither may meet a closed backend.
        self._lock = threading.RLock()

    def write(self, command: Command[A]) -> A:
        with self._lock:
            self._written = True
            return self.inner.write(command)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        with self._lock:
            if self._written and not self._closed:
                # The next one counts from the beginning; seen from here the number goes on.
                self._before = self.number() + 1
                self.inner.close()
                self.inner = self._factory()
                self._written = False
            return self.inner.read(queries)

    def number(self) -> int:
        with self._lock:
            return self._before + self.inner.changed(AT_ONCE, 0)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self.inner.close()


class Peer:
    """A child process; one serves many backends, since starting it is the slow part."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        return self._process.pid or 0

    def open(self, make: Make, clock: Clock) -> Remote:
        """A backend made in the child; `make` must be importable there."""
        return Remote(self, int(self.call("open", make, clock.now_us())), clock)

    def call(self, verb: str, *arguments: Any) -> Any:
        """Send one request and wait; what it raised there is raised here."""
        with self._lock:
            self._connection.send((verb, arguments))
            if not self._connection.poll(ANSWER_WAIT_S):
                raise errors.Timeout(f"the peer process did not answer {verb}")
            failed, answer = self._connection.recv()
        if failed:
            raise unpack_error(answer)
        return restored(answer)

    def close(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            self.call("stop")
        self._process.join(ANSWER_WAIT_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()
        self._connection.close()


class Remote(Asked):
    """A backend that lives in the child process, judged by the clock of this one."""

    def __init__(self, peer: Peer, number: int, clock: Clock) -> None:
        self._peer = peer
        self._number = number
        self._clock = clock
        self.capabilities: Capabilities = self._call("capabilities")
        self.cursor_key: bytes = self._call("cursor_key")

    def _call(self, method: str, *arguments: Any) -> Any:
        return self._peer.call("call", self._number, self._clock.now_us(), method, arguments)

    def write(self, command: Command[A]) -> A:
        answer: A = self._call("write", command)
        return answer

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        answers: list[Any] = self._call("read", list(queries))
        return answers

    async def awrite(self, command: Command[A]) -> A:
        return self.write(command)

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return self.read(queries)

    def number(self) -> int:
        number: int = self._call("changed", AT_ONCE, 0)
        return number

    def tenants(self) -> list[str]:
        names: list[str] = self._call("tenants")
        return names

    def backup(self, target: str, progress: Progress) -> None:
        raise errors.NotSupported("backup", "the peer process", "ask the backend of this one")

    def health(self) -> Health:
        health: Health = self._call("health")
        return health

    def stats(self) -> StoreStats:
        stats: StoreStats = self._call("stats")
        return stats

    def close(self) -> None:
        self._call("close")


class TwoProcesses(Wrapper):
    """Every other call is answered by another process that opened the same place."""

    def __init__(self, local: Backend, remote: Remote) -> None:
        super().__init__(local)
        self._remote = remote
        self._turn = 0
        self._lock = threading.Lock()
        self._closed = False

    def _next(self) -> Backend:
        with self._lock:
            if self._closed:
                raise StoreClosed("the store is closed")
            self._turn += 1
            return self._remote if self._turn % 2 else self.inner

    def write(self, command: Command[A]) -> A:
        return self._next().write(command)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return self._next().read(queries)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._remote.close()
            self.inner.close()


def serve(connection: Connection) -> None:
    """The child's loop: open backends, carry out calls, send answers and errors back."""
    opened: list[tuple[Backend, ManualClock]] = []
    while True:
        try:
            verb, arguments = restored(connection.recv())
        except EOFError:
            return
        try:
            answer = _obey(opened, verb, arguments)
        except Exception as error:
            connection.send((True, pack_error(error)))
        else:
            connection.send((False, answer))
        if verb == "stop":
            return


def _obey(opened: list[tuple[Backend, ManualClock]], verb: str, arguments: Any) -> Any:
    if verb == "open":
        make, now_us = arguments
        clock = ManualClock(now_us)
        opened.append((make(clock), clock))
        return len(opened) - 1
    if verb == "stop":
        for backend, _ in opened:
            backend.close()
        return None
    number, now_us, method, given = arguments
    backend, clock = opened[number]
    clock.advance((now_us - clock.now_us()) / 1_000_000)
    found = getattr(backend, method)
    return found(*given) if callable(found) else found


def pack_error(error: Exception) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """An error as plain values: its constructor cannot be replayed from `args` by pickle."""
    return type(error).__name__, tuple(map(str, error.args)), dict(vars(error))


def unpack_error(packed: tuple[str, tuple[Any, ...], dict[str, Any]]) -> Exception:
    """The error as it was raised in the other process."""
    name, arguments, fields = packed
    kind = getattr(errors, name, None)
    if kind is None or not issubclass(kind, LedgerstoneError):
        return RuntimeError(f"{name} in the peer process: {arguments}")
    error: Exception = kind.__new__(kind, *arguments)
    error.args = arguments
    vars(error).update(fields)
    return error


def restored(value: Any) -> Any:
    """What pickle brought, with the very objects of its defaults.

    msgspec leaves a field out when it *is* the default; an equal text that travelled is another
    object, so records would be encoded, and hashed, differently on the two sides.
    """
    if isinstance(value, Struct):
        for field in fields(value):
            found = getattr(value, field.name)
            if isinstance(found, str) and found == field.default:
                force_setattr(value, field.name, field.default)
            else:
                restored(found)
    elif isinstance(value, list | tuple | set):
        for item in value:
            restored(item)
    elif isinstance(value, dict):
        for item in value.values():
            restored(item)
    return value
