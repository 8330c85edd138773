"""What keeps rows inside this process, one command at a time: an engine that is a few functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ledgerstone.commands import Command, Query


class Engine(Protocol):
    """An engine for engines.memory.backend.MemoryBackend, which has the lock and the waiting."""

    @property
    def changed(self) -> bool:
        """Whether the last command wrote anything."""
        ...

    def write(self, command: Command[Any]) -> Any:
        """Carry the command out, all of it or nothing."""
        ...

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """Answer all queries as of one moment."""
        ...

    def tenants(self) -> list[str]:
        """The tenants that have anything."""
        ...

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        ...
