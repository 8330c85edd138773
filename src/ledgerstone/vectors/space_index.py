"""An index that follows a space: it takes what changed, and nothing twice or backwards.

No I/O is here: whoever searches reads what is missing from the store and hands it in. Several
threads may do so at once and come too late; a snapshot that is older than what the index knows
is left aside.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from threading import Lock

from ledgerstone.ports.vectors import Accept, VectorEngine, VectorIndex
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.rules.vectors import FLOAT_BYTES

Found = list[tuple[float, VectorRow]]


class SpaceIndex:
    """The rows of one space, each kind in an index of its own."""

    def __init__(self, engine: VectorEngine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._dimension = 0
        self._parts: dict[str, VectorIndex] = {}
        self._seen = 0
        self._drops = -1

    @property
    def size_bytes(self) -> int:
        """How much the vectors take."""
        return self._count() * self._dimension * FLOAT_BYTES

    def missing(self, space: Space) -> int | None:
        """After which change rows are missing, None when nothing is.

        A space that has another dimension now is read from its beginning.
        """
        with self._lock:
            if space.changes < self._seen:
                return None
            if self._dimension != space.dimension:
                return 0
            return self._seen if (self._seen, self._drops) != _moved(space) else None

    def take(self, space: Space, after: int, rows: Sequence[VectorRow], complete: bool) -> None:
        """Rows that changed after one, from the snapshot that says what the space is.

        `complete`: there are no more of them.
        """
        with self._lock:
            if space.changes < self._seen:
                return
            if self._dimension != space.dimension:
                if after:
                    return
                self._parts, self._dimension = {}, space.dimension
                self._seen, self._drops = 0, -1
            if after > self._seen:
                return
            self._put([row for row in rows if row.change > self._seen])
            self._seen = max(self._seen, space.changes if complete else rows[-1].change)
            if complete and self._count() == space.count:
                self._drops = space.drops

    def keep(self, space: Space, names: Iterable[tuple[str, str]]) -> None:
        """Only these are still there, in the snapshot that says what the space is."""
        kept = frozenset(names)
        with self._lock:
            if self._seen != space.changes or self._dimension != space.dimension:
                return
            for index in self._parts.values():
                index.keep(kept)
            self._drops = space.drops

    def nearest(self, kind: str, query: Sequence[float], count: int, accept: Accept) -> Found:
        """The best rows of a kind that are accepted."""
        with self._lock:
            index = self._parts.get(kind)
            if index is None or len(query) != self._dimension:
                return []
            return list(islice(index.ranked(query, count, accept), count))

    def _put(self, rows: list[VectorRow]) -> None:
        kinds: dict[str, list[VectorRow]] = {}
        for row in rows:
            kinds.setdefault(row.kind, []).append(row)
        for kind, those in kinds.items():
            if kind not in self._parts:
                self._parts[kind] = self._engine.index(self._dimension)
            self._parts[kind].put(those)

    def _count(self) -> int:
        return sum(map(len, self._parts.values()))


def _moved(space: Space) -> tuple[int, int]:
    return space.changes, space.drops
