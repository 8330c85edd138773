"""Keys in order."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any

CHUNK_KEYS = 512


class _Top:
    """Greater than every part of a key: behind all keys that begin alike."""

    def __gt__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return False


TOP = _Top()


class SortedKeys:
    """Tuples in order, in chunks, so that one insertion moves a few hundred of them at most."""

    def __init__(self) -> None:
        self._chunks: list[list[tuple[Any, ...]]] = []
        self._lasts: list[tuple[Any, ...]] = []

    def add(self, key: tuple[Any, ...]) -> None:
        """Take a key that is not there yet."""
        if not self._chunks:
            self._chunks.append([key])
            self._lasts.append(key)
            return
        at = bisect_left(self._lasts, key)
        if at == len(self._lasts):
            at -= 1
            self._chunks[at].append(key)
            self._lasts[at] = key
        else:
            insort(self._chunks[at], key)
        if len(self._chunks[at]) > 2 * CHUNK_KEYS:
            self._split(at)

    def remove(self, key: tuple[Any, ...]) -> None:
        """Drop a key that is there."""
        at = bisect_left(self._lasts, key)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, key)]
        if chunk:
            self._lasts[at] = chunk[-1]
        else:
            del self._chunks[at]
            del self._lasts[at]

    def between(
        self, low: tuple[Any, ...], high: tuple[Any, ...], *, reverse: bool
    ) -> Iterator[tuple[Any, ...]]:
        """Keys from `low` on, below `high`."""
        first = bisect_left(self._lasts, low)
        last = bisect_left(self._lasts, high)
        chunks = range(first, min(last + 1, len(self._chunks)))
        for at in reversed(chunks) if reverse else chunks:
            chunk = self._chunks[at]
            start = bisect_left(chunk, low) if at == first else 0
            stop = bisect_left(chunk, high) if at == last else len(chunk)
            yield from reversed(chunk[start:stop]) if reverse else chunk[start:stop]

    def _split(self, at: int) -> None:
        chunk = self._chunks[at]
        lower, upper = chunk[:CHUNK_KEYS], chunk[CHUNK_KEYS:]
        self._chunks[at : at + 1] = [lower, upper]
        self._lasts[at : at + 1] = [lower[-1], upper[-1]]
