"""A backend that is closed and opened again in the middle of things, at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from ledgerstone.commands import Command, Query
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.wrappers import Wrapper

A = TypeVar("A")

SHARE = 0.05
"""How many of all calls find the store opened anew."""


class ReopensAtRandom(Wrapper):
    """`factory` is told the randomness, so that it can also open in different ways."""

    def __init__(self, factory: Callable[[Random], Backend], random: Random) -> None:
        super().__init__(factory(random))
        self._factory = factory
        self._random = random

    def write(self, command: Command[A]) -> A:
        self._perhaps_reopen()
        return self.inner.write(command)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        self._perhaps_reopen()
        return self.inner.read(queries)

    def _perhaps_reopen(self) -> None:
        if self._random.random() < SHARE:
            self.inner.close()
            self.inner = self._factory(self._random)
