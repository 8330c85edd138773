"""The engine without any library: for small spaces, and where nothing else is installed."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Sequence, Set
from operator import mul

from ledgerstone.ports.vectors import Accept
from ledgerstone.records.embeddings import VectorRow
from ledgerstone.rules.vectors import norm, unpack
from ledgerstone.vectors.ranking import Ranked, Rough, margin, ranked

_UNIT = 2.0**-53


class PythonIndex:
    """Each row with its numbers and one over its length."""

    def __init__(self, dimension: int) -> None:
        self._margin = margin(dimension, _UNIT)
        self._rows: dict[tuple[str, str], tuple[VectorRow, array[float], float]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, rows: Sequence[VectorRow]) -> None:
        """Add rows, or replace those of the same kind and id."""
        for row in rows:
            values = array("f", unpack(row.vector))
            length = norm(values)
            scale = 1.0 / length if length else 0.0
            self._rows[row.kind, row.id] = (row, values, scale)

    def keep(self, names: Set[tuple[str, str]]) -> None:
        """Drop every row whose kind and id is not among these."""
        self._rows = {name: row for name, row in self._rows.items() if name in names}

    def ranked(self, query: Sequence[float], first: int, accept: Accept) -> Ranked:
        """Accepted rows with their cosine, best first, ties by id."""
        length = norm(query) or 1.0
        unit = [value / length for value in query]
        entries = [entry for entry in self._rows.values() if accept(entry[0])]
        scores = [sum(map(mul, unit, values)) * scale for _, values, scale in entries]

        def best(wanted: int) -> Rough:
            if wanted >= len(scores):
                return Rough([row for row, _, _ in entries], None)
            least = heapq.nlargest(wanted, scores)[-1] - 2 * self._margin
            found = [entries[n][0] for n, score in enumerate(scores) if score >= least]
            return Rough(found, least + self._margin)

        return ranked(query, first, best)
