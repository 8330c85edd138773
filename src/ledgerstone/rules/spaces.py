"""A space counts the vectors of one model and what happened to them."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.records.embeddings import Space
from ledgerstone.rules.vectors import dimension_of

KIND = "embedding"
"""The vectors that callers put themselves."""


def added(space: Space | None, model: str, vector: bytes, replaced: bool) -> Space:
    """The space once it has one more row, or another one in the place of one of its own."""
    dimension = dimension_of(vector)
    if space is None:
        return Space(model=model, dimension=dimension, count=1, changes=1)
    return replace(
        space,
        dimension=dimension,
        count=space.count + (not replaced),
        changes=space.changes + 1,
    )


def left(space: Space, count: int = 1) -> Space:
    """The space once so many rows have left it; its dimension goes with the last only when
    another comes.
    """
    return replace(space, count=space.count - count, drops=space.drops + count)
