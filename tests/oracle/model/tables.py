"""Tables: rows by key, keys in order, and an undo log that makes a transaction.

A key is a tuple whose parts compare with each other; a row is an immutable value. Everything the
model knows lies in such tables and is changed by insert, update and delete only, so that whatever
can keep ordered rows (a journal, a document store) can later sit under the same rules.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=tuple[Any, ...])
R = TypeVar("R")

CHUNK_KEYS = 512
ABSENT: Any = object()
"""Where no row is: told apart from a row that is None."""


class _Top:
    """Greater than every part of a key: the upper border of a prefix."""

    def __gt__(self, other: object) -> bool:
        return True

    def __lt__(self, other: object) -> bool:
        return False


_TOP = _Top()


class SortedKeys(Generic[K]):
    """Keys in order, in chunks, so that one insertion moves a few hundred keys at most."""

    def __init__(self) -> None:
        self._chunks: list[list[K]] = []
        self._lasts: list[K] = []

    def add(self, key: K) -> None:
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

    def remove(self, key: K) -> None:
        """Drop a key that is there."""
        at = bisect_left(self._lasts, key)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, key)]
        if chunk:
            self._lasts[at] = chunk[-1]
        else:
            del self._chunks[at]
            del self._lasts[at]

    def upwards(self, low: tuple[Any, ...]) -> Iterator[K]:
        """Keys from `low` on, ascending."""
        at = bisect_left(self._lasts, low)
        if at == len(self._lasts):
            return
        chunk = self._chunks[at]
        yield from chunk[bisect_left(chunk, low) :]
        for chunk in self._chunks[at + 1 :]:
            yield from chunk

    def downwards(self, high: tuple[Any, ...]) -> Iterator[K]:
        """Keys below `high`, descending."""
        at = bisect_left(self._lasts, high)
        if at < len(self._lasts):
            chunk = self._chunks[at]
            yield from reversed(chunk[: bisect_left(chunk, high)])
        for chunk in reversed(self._chunks[:at]):
            yield from reversed(chunk)

    def _split(self, at: int) -> None:
        chunk = self._chunks[at]
        lower, upper = chunk[:CHUNK_KEYS], chunk[CHUNK_KEYS:]
        self._chunks[at : at + 1] = [lower, upper]
        self._lasts[at : at + 1] = [lower[-1], upper[-1]]


class UndoLog:
    """What the open transaction changed: table, key, and the row that stood there before."""

    def __init__(self) -> None:
        self.entries: list[tuple[Table[Any, Any], tuple[Any, ...], Any]] | None = None

    def note(self, table: Table[Any, Any], key: tuple[Any, ...], before: Any) -> None:
        """Remember the row to put back; RuntimeError outside a transaction."""
        if self.entries is None:
            raise RuntimeError("a table was changed outside a transaction")
        self.entries.append((table, key, before))


class Table(Generic[K, R]):
    """Rows by key. Rows are values: they are replaced, never changed in place."""

    def __init__(self, name: str, log: UndoLog) -> None:
        self.name = name
        self._rows: dict[K, R] = {}
        self._keys: SortedKeys[K] = SortedKeys()
        self._log = log

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: K) -> bool:
        return key in self._rows

    def __getitem__(self, key: K) -> R:
        return self._rows[key]

    def get(self, key: K) -> R | None:
        """The row, or None."""
        return self._rows.get(key)

    def insert(self, key: K, row: R) -> None:
        """Add a row; KeyError when the key is taken."""
        if key in self._rows:
            raise KeyError(f"{self.name}{key} is taken")
        self._log.note(self, key, ABSENT)
        self._rows[key] = row
        self._keys.add(key)

    def update(self, key: K, row: R) -> None:
        """Replace a row; KeyError when there is none."""
        self._log.note(self, key, self._rows[key])
        self._rows[key] = row

    def delete(self, key: K) -> None:
        """Remove a row; KeyError when there is none."""
        self._log.note(self, key, self._rows[key])
        del self._rows[key]
        self._keys.remove(key)

    def current(self, key: K) -> Any:
        """The row, or ABSENT."""
        return self._rows.get(key, ABSENT)

    def put(self, key: K, row: R) -> None:
        """Insert or replace."""
        if key in self._rows:
            self.update(key, row)
        else:
            self.insert(key, row)

    def scan(
        self, prefix: tuple[Any, ...] = (), *, since: tuple[Any, ...] = (), reverse: bool = False
    ) -> Iterator[tuple[K, R]]:
        """Rows whose key starts with `prefix`, in key order, lazily.

        `since` is an inclusive lower border. Whoever changes the table while scanning it must
        take a list of the scan first.
        """
        low = max(prefix, since)
        size = len(prefix)
        if reverse:
            for key in self._keys.downwards((*prefix, _TOP)):
                if key < low:
                    return
                yield key, self._rows[key]
            return
        for key in self._keys.upwards(low):
            if key[:size] != prefix:
                return
            yield key, self._rows[key]

    def last(self, prefix: tuple[Any, ...]) -> R | None:
        """The row with the greatest key that starts with `prefix`, or None."""
        return next((row for _, row in self.scan(prefix, reverse=True)), None)

    def place(self, key: K, row: Any) -> None:
        """Make the row this one, or none when ABSENT; past the undo log."""
        if row is not ABSENT:
            if key not in self._rows:
                self._keys.add(key)
            self._rows[key] = row
        elif key in self._rows:
            del self._rows[key]
            self._keys.remove(key)
