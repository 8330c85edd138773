"""The model: commands in, answers out, over tables in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ledgerstone.clock import Clock
from ledgerstone.commands import Command, Query
from ledgerstone.errors import NotSupported
from tests.oracle.model.handlers import READS, WRITES
from tests.oracle.model.state import State, Tx, tenants_of

A = TypeVar("A")


class Model:
    """One store's state and the rules over it; not for several threads at once."""

    def __init__(self, clock: Clock) -> None:
        self.state = State()
        self.touched = False
        self._clock = clock

    def write(self, command: Command[A]) -> A:
        """Carry the command out; any exception leaves the state as it was.

        `touched` says whether it wrote anything.
        """
        handler = WRITES.get(type(command))
        if handler is None:
            raise NotSupported(type(command).__name__, "model")
        self.state.begin()
        try:
            answer: A = handler(Tx(self.state, self._clock.now_us()), command)
        except BaseException:
            self.state.rollback()
            raise
        self.touched = bool(self.state.commit())
        return answer

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """Answer all queries as of one moment."""
        tx = Tx(self.state, self._clock.now_us())
        return [self._answer(tx, query) for query in queries]

    def _answer(self, tx: Tx, query: Query[Any]) -> Any:
        handler = READS.get(type(query))
        if handler is None:
            raise NotSupported(type(query).__name__, "model")
        return handler(tx, query)

    def tenants(self) -> list[str]:
        """The tenants that have anything."""
        return tenants_of(self.state)
