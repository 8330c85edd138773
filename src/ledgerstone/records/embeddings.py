"""Embeddings: vectors by id, of one dimension per tenant and model."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.records import Created


class Embedding(Created, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One vector; its numbers are 32-bit floats, so what comes back may be rounded."""

    id: str
    model: str
    vector: tuple[float, ...]
    session: str | None = None
    namespace: tuple[str, ...] = ()
    metadata: Any = None
    created_us: int = 0


class Match(msgspec.Struct, frozen=True):
    """An embedding that a search found; the score is the cosine, from -1 to 1."""

    embedding: Embedding
    score: float


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """The vectors of one model: how long each is, how many, and what moved.

    `changes` rises with every row that is put, `drops` with every one that goes, so an index in
    memory knows what it has missed.
    """

    model: str
    dimension: int
    count: int = 0
    changes: int = 0
    drops: int = 0


class VectorRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored vector as an index reads it: little-endian 32-bit floats."""

    kind: str
    id: str
    model: str
    change: int
    vector: bytes
    session: str | None = None
    namespace: str = ""
    metadata: bytes | None = None
    created_us: int = 0
