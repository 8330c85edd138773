"""Bytes as they stand in a journal: readable JSON, and the same bytes again when read back.

Bytes that are JSON (bodies, metadata, documents) are embedded as they are, under their own name.
Any other bytes stand in base64 under that name with `64` behind it; hashes, salts and links are
always base64.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

MARGIN = 400
"""Levels of nesting that the reader's own stack may need besides those of the value."""
SURELY_FLAT = 64

Json: TypeAlias = Raw | UnsetType
Blob: TypeAlias = bytes | UnsetType

Mention: TypeAlias = tuple[str, tuple[str, ...]]
"""A table, and whose row: what a purge looks for in the store's journal."""

_raw = msgspec.json.Decoder(Raw)


def split(data: bytes | None) -> tuple[Json, Blob]:
    """The bytes as embedded JSON, or as a blob when they cannot be embedded unchanged."""
    if data is None:
        return UNSET, UNSET
    if b"\n" in data or b"\r" in data:
        return UNSET, data
    try:
        data.decode()
        if memoryview(_raw.decode(data)).nbytes != len(data):
            return UNSET, data  # It has spaces around it, which would not come back.
        if data.count(b"[") + data.count(b"{") > SURELY_FLAT:
            _raw.decode(b"[" * MARGIN + data + b"]" * MARGIN)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNSET, data
    return Raw(data), UNSET


def joined(embedded: Json, blob: Blob) -> bytes | None:
    """The bytes that `split` was given."""
    if isinstance(embedded, Raw):
        return bytes(embedded)
    return None if blob is UNSET else blob


def required(embedded: Json, blob: Blob) -> bytes:
    """The same for what cannot be missing; ValueError when it is."""
    data = joined(embedded, blob)
    if data is None:
        raise ValueError("a row lacks its bytes")
    return data


class Wire(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row on its way to or from a line."""


class SharedWire(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A row that may stand in the store's journal: it has its whole key."""

    def key(self) -> tuple[Any, ...]:
        """Where it stands in its table."""
        raise RuntimeError(f"{type(self).__name__} has no key")

    def row(self) -> Any:
        """The row itself."""
        raise RuntimeError(f"{type(self).__name__} has no row")

    def mention(self) -> Mention | None:
        """Whose bytes these are, if a purge can ask for them."""
        return None
