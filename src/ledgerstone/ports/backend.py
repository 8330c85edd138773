"""The backend port: a few methods that take values and answer values.

Everything a store can do arrives as a `Command` or a `Query`; so retries, measurements, fault
injection and proxies wrap a handful of methods. Each method exists blocking and async, and
the blocking one never needs an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from ledgerstone.commands import Command, Query
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.reports import Capabilities, Health, StoreStats

A = TypeVar("A")
Progress = Callable[[int, int], object]
"""Called with what is done and the total."""


class Backend(Protocol):
    """A place that keeps sessions."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def cursor_key(self) -> bytes:
        """The secret that signs cursors: made with the store, kept in it, read at opening."""
        ...

    def write(self, command: Command[A]) -> A:
        """Carry the command out in one transaction; the answer means it is durable."""
        ...

    async def awrite(self, command: Command[A]) -> A: ...

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """Answer all queries from one snapshot, in one round trip."""
        ...

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]: ...

    def changed(self, seen: int, timeout_s: float) -> int:
        """Wait until something may have been committed since `seen` was answered, by anybody.

        Answers another number then, and `seen` when the time is over. -1 is answered at once.
        """
        ...

    async def achanged(self, seen: int, timeout_s: float) -> int: ...

    def tenants(self) -> list[str]:
        """The tenants that have anything: for operators, not for requests."""
        ...

    def health(self) -> Health:
        """Whether the backend is alive and can be written: leaves no trace and counts nothing."""
        ...

    def stats(self) -> StoreStats:
        """Rows and sizes over all tenants: for operators, not for requests."""
        ...

    def backup(self, target: str, progress: Progress) -> None:
        """Write the store of one moment, flushed, to a path where nothing is; others go on.

        Blobs in a directory of their own are not in it. NotSupported, with the next step, where
        that is another tool's work; StorageFull. After an error the target is the caller's to
        remove.
        """
        ...

    def close(self) -> None:
        """Finish what was accepted, then let go; closing twice is fine."""
        ...


@runtime_checkable
class Joining(Protocol):
    """A backend that can write inside a transaction of the caller's database connection."""

    def join(self, command: Command[A], connection: object) -> A:
        """Carry the command out there; it is durable when the caller commits, gone when not.

        InvalidValue for a connection that leads elsewhere or is in no transaction. After any
        error the caller's transaction stands as it did before.
        """
        ...

    async def ajoin(self, command: Command[A], connection: object) -> A: ...


@runtime_checkable
class Grouping(Protocol):
    """A backend for which many commands of many sessions are little more than one."""

    def write_many(self, commands: Sequence[Command[A]]) -> list[A | LedgerstoneError]:
        """Carry each out by itself, in any order: its answer, or its error in its place."""
        ...

    async def awrite_many(self, commands: Sequence[Command[A]]) -> list[A | LedgerstoneError]: ...
