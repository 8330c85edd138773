"""The memory backend: tables in dictionaries behind a lock. Nothing survives the process."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any, TypeVar

from ledgerstone.clock import Clock
from ledgerstone.commands import Command, Query
from ledgerstone.engines.changes import Changes, WaitingForChanges
from ledgerstone.engines.memory.rows import MemoryRows
from ledgerstone.errors import NotSupported, StoreClosed
from ledgerstone.handlers.registry import Handler, handler_of
from ledgerstone.handlers.tenants import list_tenants
from ledgerstone.ports.backend import Progress
from ledgerstone.ports.engine import Engine
from ledgerstone.records.reports import Capabilities, Health, StoreStats
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now

A = TypeVar("A")

DURABILITY = "none"
SCHEMA = 1
KEY_BYTES = 16


def open_memory(durability: str | None, clock: Clock) -> MemoryBackend:
    """A new, empty store; NotSupported when any durability is asked for."""
    if durability not in (None, DURABILITY):
        raise NotSupported(f"durability {durability!r}", "memory", "nothing here is on disk")
    return MemoryBackend(clock)


class MemoryEngine:
    """One command at a time; the caller holds the lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rows = MemoryRows()
        self.changed = False
        """Whether the last command wrote anything."""

    def write(self, command: Command[Any]) -> Any:
        """Carry the command out, all of it or nothing."""
        handler = _handler_of(command)
        tx = Tx(self.rows, self._clock.now_us())
        self.changed = False
        answer = run_now(handler(tx, command))
        self.changed = tx.changed
        if tx.changed:
            self.rows.place(self.rows.changes(tx))
        return answer

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """Answer all queries as of one moment."""
        tx = Tx(self.rows, self._clock.now_us())
        return [run_now(_handler_of(query)(tx, query)) for query in queries]

    def tenants(self) -> list[str]:
        """The tenants that have anything."""
        return run_now(list_tenants(Tx(self.rows, self._clock.now_us())))

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        return {table.name: len(rows) for table, rows in self.rows.tables.items()}


def _handler_of(asked: Command[Any] | Query[Any]) -> Handler[Any, Any]:
    handler = handler_of(type(asked))
    if handler is None:
        raise NotSupported(type(asked).__name__, "memory")
    return handler


class MemoryBackend(WaitingForChanges):
    """Every command and every group of queries runs alone, in the caller's thread.

    `engine`: another one that keeps its rows in this process (docs/engines.md).
    """

    def __init__(self, clock: Clock, engine: Engine | None = None) -> None:
        self._engine = engine or MemoryEngine(clock)
        self._lock = threading.Lock()
        self._changes = Changes()
        self._pid = os.getpid()
        self._closed = False
        self.cursor_key = os.urandom(KEY_BYTES)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            name="memory", durability=DURABILITY, multi_process=False, persistent=False
        )

    def write(self, command: Command[A]) -> A:
        with self._opened():
            self._check_open()
            answer: A = self._engine.write(command)
            if self._engine.changed:
                self._changes.tell()
            return answer

    async def awrite(self, command: Command[A]) -> A:
        """The same: a few microseconds of work are not worth a thread."""
        return self.write(command)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        with self._opened():
            self._check_open()
            return self._engine.read(queries)

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return self.read(queries)

    def tenants(self) -> list[str]:
        with self._opened():
            self._check_open()
            return self._engine.tenants()

    def health(self) -> Health:
        """Always well while it is open."""
        with self._opened():
            self._check_open()
        return Health(backend="memory", ok=True, durability=DURABILITY, schema=SCHEMA)

    def stats(self) -> StoreStats:
        with self._opened():
            self._check_open()
            return StoreStats(counts=self._engine.counts())

    def backup(self, target: str, progress: Progress) -> None:
        """Refuse: there are no files."""
        hint = "copy it into a store on disk: store.admin.copy_to(Store.open(path))"
        raise NotSupported("backup", "memory", hint)

    def close(self) -> None:
        """Let go of everything; closing twice is fine."""
        if os.getpid() != self._pid:
            self._closed = True
            return
        with self._lock:
            self._closed = True
        self._changes.close()

    def _opened(self) -> threading.Lock:
        """The lock, after a look at the process.

        A fork copies the lock as it stood in the parent, held perhaps for ever, so the process
        is checked before the lock is touched.
        """
        if os.getpid() != self._pid:
            raise StoreClosed(
                f"this memory store was opened by process {self._pid} and is used by its fork "
                f"{os.getpid()}, where it is only a copy; open a store after the fork"
            )
        return self._lock

    def _check_usable(self) -> None:
        self._opened()
        self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the memory store is closed")
