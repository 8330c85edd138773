"""What holds for a remembered value: when it ends, how it is named and read."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.memories import NAMESPACE_END, MemoryName
from ledgerstone.records.memories import Memory
from ledgerstone.rules import namespaces
from ledgerstone.rules.bodies import read_json

KIND = "memory"
"""The vectors of memories, among those of a space."""


def is_alive(expires_us: int | None, now_us: int) -> bool:
    """Whether it has not ended; at its very end it has."""
    return expires_us is None or expires_us > now_us


def end_us(ttl_us: int | None, now_us: int) -> int | None:
    """When something written or touched now will end."""
    return None if ttl_us is None else now_us + ttl_us


def vector_id(namespace: str, key: str) -> str:
    """The id of a memory's vector; keys contain no NAMESPACE_END, so no two share one."""
    return namespace + key


def name_of(id: str) -> MemoryName:
    """The memory that a vector is of."""
    namespace, end, key = id.rpartition(NAMESPACE_END)
    return MemoryName(namespace + end, key)


def read_value(key: str, data: bytes) -> Any:
    """What was remembered; Corrupt when it does not decode."""
    return read_json(data, "memories", key, "value")


def record(
    namespace: str,
    key: str,
    value: bytes,
    ttl_us: int | None,
    created_us: int,
    updated_us: int,
    expires_us: int | None,
) -> Memory:
    """As callers see it; Corrupt when the value does not decode."""
    return Memory(
        namespace=namespaces.split(namespace),
        key=key,
        value=read_value(key, value),
        created_us=created_us,
        updated_us=updated_us,
        expires_us=expires_us,
        ttl_us=ttl_us,
    )
