# Generated from api/pages.py by tools/make_sync.py: edit that, then run `make sync`.
"""Complete iteration over lists that are read in bounded chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ledgerstone.api.loop_blocking import Soon

T = TypeVar("T")

CHUNK = 500


class Pages(Generic[T]):
    """Every item of a list, chunk by chunk; only the chunk in hand is kept in memory.

    `fetch` answers the items after the given one, in order; fewer than `chunk` end the list.
    """

    def __init__(
        self,
        fetch: Callable[[T | None], Soon[list[T]]],
        *,
        chunk: int = CHUNK,
        limit: int | None = None,
    ) -> None:
        self._fetch = fetch
        self._chunk = chunk
        self._left = limit
        self._items: list[T] = []
        self._next = 0
        self._last: T | None = None
        self._more = True

    def __iter__(self) -> Pages[T]:
        return self

    def __next__(self) -> T:
        if self._left == 0:
            raise StopIteration
        if self._next == len(self._items):
            self._refill()
        item = self._items[self._next]
        self._next += 1
        if self._left is not None:
            self._left -= 1
        return item

    def _refill(self) -> None:
        self._items = self._fetch(self._last) if self._more else []
        self._next = 0
        if not self._items:
            self._more = False
            raise StopIteration
        self._more = len(self._items) >= self._chunk
        self._last = self._items[-1]
