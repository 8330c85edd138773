"""Time: whole microseconds, UTC, and a clock for tests that only moves when told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pytest

from ledgerstone.clock import ManualClock, SystemClock, monotonic_s, to_datetime, to_us, wall_ns


def test_the_system_clock_is_the_machines() -> None:
    before = wall_ns() // 1000
    now = SystemClock().now_us()
    assert before <= now <= wall_ns() // 1000
    assert abs(datetime.now(UTC) - to_datetime(now)) < timedelta(seconds=5)


def test_the_manual_clock_stands_still_until_told() -> None:
    clock = ManualClock(1_000_000)
    assert clock.now_us() == clock.now_us() == 1_000_000
    clock.advance(1.5)
    assert clock.now_us() == 2_500_000
    clock.advance(-2)
    assert clock.now_us() == 500_000
    clock.advance(0.000_001)
    assert clock.now_us() == 500_001


def test_waiting_time_never_goes_back() -> None:
    times = [monotonic_s() for _ in range(1_000)]
    assert times == sorted(times)


@pytest.mark.parametrize("us", [0, 1, 999_999, 1_700_000_000_123_456, 4_102_444_800_000_001])
def test_microseconds_survive_a_datetime(us: int) -> None:
    made = to_datetime(us)
    assert made.tzinfo is UTC
    assert to_us(made) == us


def test_random_microseconds_survive_a_datetime(seed: int) -> None:
    """A float has 53 bits: none of them may be lost on the way."""
    print(f"seed {seed}")
    random = Random(seed)
    for _ in range(5_000):
        us = random.randrange(253_402_300_799_000_000)
        assert to_us(to_datetime(us)) == us


def test_any_time_zone_is_understood_and_none_is_refused() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    assert to_us(datetime(1970, 1, 1, 5, 30, tzinfo=east)) == 0
    assert to_us(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert to_us(7) == 7
    with pytest.raises(ValueError, match="time zone"):
        to_us(datetime(2026, 1, 1))  # noqa: DTZ001
