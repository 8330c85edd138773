"""The key that signs cursors, as a store keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HALF_BYTES = 8


def cursor_key(halves: Sequence[tuple[Any, ...]]) -> bytes:
    """The key, from its rows in the table `store`."""
    return b"".join(half.to_bytes(HALF_BYTES, "big", signed=True) for (half,) in halves)
