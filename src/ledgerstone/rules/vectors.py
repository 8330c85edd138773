"""Vectors: how they are stored, and the one way their nearness is told.

A product of two 32-bit floats is exact in 64 bits and `fsum` rounds a sum once, so a score depends
on nothing but the two vectors: every engine may find candidates as it likes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from operator import mul
from struct import Struct

from msgspec.structs import replace

from ledgerstone.errors import InvalidValue
from ledgerstone.records.embeddings import Space

DIMENSIONS_MAX = 65_536
FLOAT_BYTES = 4


KIND = "embedding"
"""The vectors that callers put themselves."""


@cache
def layout(dimension: int) -> Struct:
    """So many little-endian 32-bit floats."""
    return Struct(f"<{dimension}f")


def pack(values: Sequence[float]) -> bytes:
    """Numbers as they are stored; OverflowError beyond 32-bit floats."""
    return layout(len(values)).pack(*values)


def unpack(data: bytes) -> tuple[float, ...]:
    """What `pack` stored."""
    return layout(dimension_of(data)).unpack(data)


def dimension_of(data: bytes) -> int:
    """How many numbers there are."""
    return len(data) // FLOAT_BYTES


def squared(values: Sequence[float]) -> float:
    """The length of a vector, squared."""
    return math.fsum(map(mul, values, values))


def norm(values: Sequence[float]) -> float:
    """The length of a vector."""
    return math.sqrt(squared(values))


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """From -1 to 1; 0 when a vector is zero or they have different dimensions."""
    return cosine_of(one, squared(one), other)


def cosine_of(one: Sequence[float], one_squared: float, other: Sequence[float]) -> float:
    """`cosine`, when the squared length of the first is known."""
    # One root of the product, not a product of roots: so a vector has 1.0 with itself.
    lengths = math.sqrt(one_squared * squared(other))
    if lengths == 0.0 or len(one) != len(other):
        return 0.0
    return max(-1.0, min(1.0, math.fsum(map(mul, one, other)) / lengths))


def check_dimension(model: str, fixed: int, count: int, data: bytes) -> None:
    """The vectors of one model are of one dimension, as long as there are any."""
    given = dimension_of(data)
    if count and given != fixed:
        raise other_dimension(model, fixed, given)


def other_dimension(model: str, fixed: int, given: int) -> InvalidValue:
    """The refusal of a vector that no vector of the model can be compared with."""
    name = f"model {model!r}" if model else "the unnamed model"
    unit = "dimension" if fixed == 1 else "dimensions"
    return InvalidValue("vector", f"{name} has {fixed} {unit}, this vector has {given}")


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
