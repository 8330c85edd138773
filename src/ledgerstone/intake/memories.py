"""Memories as callers may give them, turned into what commands carry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledgerstone import ids
from ledgerstone.codec import encode_json
from ledgerstone.commands.memories import MemoryName, NewMemory
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.embeddings import Vector, packed
from ledgerstone.records.memories import Forget, Namespace, Remember
from ledgerstone.rules import namespaces


def namespace_text(value: Namespace, field: str = "namespace") -> str:
    """A namespace as commands carry it; text alone is one segment, () is the root."""
    return namespaces.check(value, field)


def memory_name(namespace: Namespace, key: str) -> MemoryName:
    return MemoryName(namespace_text(namespace), memory_key(key))


def memory_key(key: object) -> str:
    """Text like an id; nothing is turned into text for the caller."""
    if not isinstance(key, str):
        raise InvalidValue("key", f"text expected, got {type(key).__name__}")
    return ids.check_id(key, "key")


def new_memory(
    namespace: Namespace,
    key: str,
    value: Any,
    *,
    ttl_s: float | None = None,
    vector: Vector | None = None,
    model: str = "",
    if_absent: bool = False,
) -> NewMemory:
    name = memory_name(namespace, key)
    return NewMemory(
        namespace=name.namespace,
        key=name.key,
        value=encode_json(value, "value"),
        ttl_us=_ttl(ttl_s),
        model=ids.check_label(model, "model"),
        vector=None if vector is None else packed(vector),
        if_absent=checks.flag(if_absent, "if_absent"),
    )


def batch_changes(given: Iterable[object]) -> tuple[NewMemory | MemoryName, ...]:
    return tuple(_change(one, n) for n, one in enumerate(checks.items(given, "changes")))


def _change(one: object, n: int) -> NewMemory | MemoryName:
    if isinstance(one, Forget):
        return memory_name(one.namespace, one.key)
    if isinstance(one, Remember):
        return new_memory(
            one.namespace,
            one.key,
            one.value,
            ttl_s=one.ttl_s,
            vector=one.vector,
            model=one.model,
            if_absent=one.if_absent,
        )
    raise InvalidValue(f"changes[{n}]", f"Remember or Forget expected, got {type(one).__name__}")


def _ttl(ttl_s: float | None) -> int | None:
    if ttl_s is None:
        return None
    ttl_us = checks.span_us(ttl_s, "ttl_s")
    if ttl_us <= 0:
        raise InvalidValue("ttl_s", "a duration above 0 expected; None lives for ever")
    return ttl_us
