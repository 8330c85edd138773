"""The only place that asks the machine for the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

US_PER_S = 1_000_000


class Clock(Protocol):
    """Integer microseconds since 1970, UTC."""

    def now_us(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000


class ManualClock:
    """A clock that stands still until it is told to move: for tests and simulations."""

    def __init__(self, start_us: int = 1_700_000_000_000_000) -> None:
        self._now_us = start_us

    def now_us(self) -> int:
        return self._now_us

    def advance(self, seconds: float) -> None:
        """Move the time forward (or back, when negative)."""
        self._now_us += round(seconds * US_PER_S)


def wall_ns() -> int:
    """The machine's time for making ids, which only need to be roughly ordered."""
    return time.time_ns()


def monotonic_s() -> float:
    """Seconds that never jump: for waiting, never for records."""
    return time.monotonic()


def to_datetime(us: int) -> datetime:
    """Microseconds as an aware datetime."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def to_us(value: datetime | int) -> int:
    """An aware datetime or integer microseconds, as integer microseconds."""
    if isinstance(value, int):
        return value
    if value.tzinfo is None:
        raise ValueError("a datetime needs a time zone")
    delta = value - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * US_PER_S + delta.microseconds
