"""Carrying out commands over rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledgerstone.clock import Clock
from ledgerstone.commands import Command, Query
from ledgerstone.engines.memory.rows import MemoryRows
from ledgerstone.errors import NotSupported
from ledgerstone.handlers.registry import handler_of
from ledgerstone.handlers.tenants import list_tenants
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now


class MemoryEngine:
    """One command at a time; the caller holds the lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rows = MemoryRows()
        self.changed = False
        """Whether the last command wrote anything."""

    def write(self, command: Command[Any]) -> Any:
        """Carry the command out, all of it or nothing."""
        handler = handler_of(type(command))
        if handler is None:
            raise NotSupported(type(command).__name__, "memory")
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
        return [self._answer(tx, query) for query in queries]

    def tenants(self) -> list[str]:
        """The tenants that have anything."""
        return run_now(list_tenants(Tx(self.rows, self._clock.now_us())))

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        return {table.name: len(rows) for table, rows in self.rows.tables.items()}

    def _answer(self, tx: Tx, query: Query[Any]) -> Any:
        handler = handler_of(type(query))
        if handler is None:
            raise NotSupported(type(query).__name__, "memory")
        return run_now(handler(tx, query))
