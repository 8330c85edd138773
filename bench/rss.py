"""What the watch over a process's memory found."""

from __future__ import annotations

from typing import Final

import msgspec

TENTHS: Final = 10


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Resident megabytes at the start and after every tenth, and how long each way took."""

    tenth: int
    appended: int
    streamed: int
    start_mb: float
    appending_mb: list[float]
    streaming_mb: list[float]
    append_s: float
    stream_s: float
