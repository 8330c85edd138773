"""Work: what a session has still to do."""

from __future__ import annotations

from typing import Any

import msgspec


class Batch(msgspec.Struct, frozen=True):
    """Payloads enqueued together; they are claimed and completed together."""

    session: str
    id: str
    enqueue_seq: int
    payloads: list[Any]
    source_key: str | None = None
    claim: str | None = None
    enqueued_us: int = 0


class Claim(msgspec.Struct, frozen=True):
    """Ownership of batches, pinned to the fence it was made under."""

    session: str
    id: str
    fence: int
    batches: list[Batch]
