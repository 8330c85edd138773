"""Memories: JSON values under a namespace and a key, with an optional end and vector."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from ledgerstone.clock import to_datetime
from ledgerstone.records import Created


class Memory(Created, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One remembered value. `score` is set by a search with a vector."""

    namespace: tuple[str, ...]
    key: str
    value: Any = None
    created_us: int = 0
    updated_us: int = 0
    expires_us: int | None = None
    ttl_us: int | None = None
    score: float | None = None

    @property
    def updated_at(self) -> datetime:
        return to_datetime(self.updated_us)


Namespace: TypeAlias = tuple[str, ...] | list[str] | str
"""Segments from the outside in; text alone is one segment, () is the root of all."""


class Remember(msgspec.Struct, frozen=True):
    """A put of a batch; the fields are those of `memories.put`."""

    namespace: Namespace
    key: str
    value: Any = None
    ttl_s: float | None = None
    vector: Any = None
    model: str = ""
    if_absent: bool = False


class Forget(msgspec.Struct, frozen=True):
    """A delete of a batch."""

    namespace: Namespace
    key: str
