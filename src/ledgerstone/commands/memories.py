"""Memories: puts, deletes and reads of values under namespaces.

A namespace travels as its segments joined and ended by NAMESPACE_END, which no segment can
contain: so one namespace is below another exactly when its text begins with the other's.
"""

from __future__ import annotations

import msgspec

from ledgerstone.commands import Command, Query
from ledgerstone.records.memories import Memory

NAMESPACE_END = "\x1f"


class NewMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A value to remember; `value` and `vector` are encoded. `if_absent`: the first one stays."""

    namespace: str
    key: str
    value: bytes
    ttl_us: int | None = None
    model: str = ""
    vector: bytes | None = None
    if_absent: bool = False


class MemoryName(msgspec.Struct, frozen=True):
    """A namespace and a key."""

    namespace: str
    key: str


class PutMemory(Command[Memory], frozen=True, kw_only=True):
    """Insert or replace; a put without a vector removes an older one. InvalidValue (dimension)."""

    memory: NewMemory


class ChangeMemories(Command[list[Memory | bool]], frozen=True, kw_only=True):
    """Several puts and deletes in order, all of them or none."""

    changes: tuple[NewMemory | MemoryName, ...]


class DeleteMemory(Command[bool], frozen=True, kw_only=True):
    """Remove; False when there was none."""

    namespace: str
    key: str


class TouchMemory(Command[Memory | None], frozen=True, kw_only=True):
    """Read, and let the time to live begin anew."""

    namespace: str
    key: str


class SweepMemories(Command[int], frozen=True, kw_only=True):
    """Remove at most `limit` expired ones; how many went, or would go when `dry_run`."""

    limit: int = 1000
    dry_run: bool = False


class GetMemories(Query[list[Memory | None]], frozen=True, kw_only=True):
    """Several by name, in that order; None for an absent or expired one."""

    names: tuple[MemoryName, ...]


class SearchMemories(Query[list[Memory]], frozen=True, kw_only=True):
    """Values at or below a namespace that match the filter, by namespace and key, after a name.

    `filter` is the parsed filter as canonical JSON (rules/matching.py).
    """

    namespace: str = ""
    filter: bytes | None = None
    after: MemoryName | None = None
    limit: int | None = None
    offset: int = 0


class ListNamespaces(Query[list[tuple[str, ...]]], frozen=True, kw_only=True):
    """Namespaces that hold something, in order: at or below `prefix`, ending with `suffix`
    (segments), cut to `max_depth` segments.
    """

    prefix: str = ""
    suffix: tuple[str, ...] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0
