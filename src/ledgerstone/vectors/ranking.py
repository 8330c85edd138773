"""From an engine's rough scores to the exact order that all engines share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ledgerstone.records.embeddings import VectorRow
from ledgerstone.rules.vectors import cosine_of, squared, unpack

Ranked = Iterator[tuple[float, VectorRow]]
GROWTH = 8


class Rough(NamedTuple):
    """Candidates that are accepted: every other such row scores less than `below`; None: there
    is no other.
    """

    rows: Iterable[VectorRow]
    below: float | None


def ranked(query: Sequence[float], first: int, look: Callable[[int], Rough]) -> Ranked:
    """Every row with its cosine, best first, ties by id.

    `look(count)` finds the candidates among at least that many rows. Those that score above all
    others are handed out, then it looks at more.
    """
    length = squared(query)
    # Vectors that are there many times are scored once, else a tie of thousands takes a second.
    known: dict[bytes, float] = {}

    def score(row: VectorRow) -> float:
        if not length:
            return 0.0
        found = known.get(row.vector)
        if found is None:
            found = known[row.vector] = cosine_of(query, length, unpack(row.vector))
        return found

    done, count = 0, max(first, 1)
    while True:
        rough = look(count)
        scored = [(score(row), row) for row in rough.rows]
        scored.sort(key=lambda one: (-one[0], one[1].id))
        if rough.below is None:
            yield from scored[done:]
            return
        below = rough.below
        sure = sum(one[0] >= below for one in scored)
        yield from scored[done:sure]
        done = max(done, sure)
        count *= GROWTH


def scored(query: Sequence[float], rows: Iterable[VectorRow]) -> Ranked:
    """These rows with their cosine, in the order they came."""
    length = squared(query)
    for row in rows:
        yield cosine_of(query, length, unpack(row.vector)), row


def margin(dimension: int, unit: float) -> float:
    """How far a sum of products of unit vectors can be off, in floats of this precision."""
    return (dimension + 16) * unit * 2
