"""The server's time between two of its answers: never ahead, and set back within two windows."""

from __future__ import annotations

import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.engines.postgres.drivers import clock as postgres_clock
from ledgerstone.engines.postgres.drivers.clock import TRUSTED_S, WINDOW_S, ServerClock


class Local:
    """A local clock that is moved by hand."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Local:
    made = Local()
    monkeypatch.setattr(postgres_clock, "monotonic_s", made)
    return made


def test_a_late_answer_does_not_set_it_back(local: Local) -> None:
    clock = ServerClock(None)
    clock.seen(5_000_000)
    local.s += 1
    clock.seen(5_980_000)  # It was 20 ms on its way.
    assert clock.now_us() == 6_000_000


def test_an_answer_that_came_faster_is_believed(local: Local) -> None:
    clock = ServerClock(None)
    clock.seen(5_000_000)
    local.s += 1
    clock.seen(6_007_000)
    assert clock.now_us() == 6_007_000


def test_a_clock_that_was_set_back_is_followed(local: Local) -> None:
    clock = ServerClock(None)
    clock.seen(5_000_000)
    for n in range(1, 4):
        local.s += WINDOW_S * 1.1
        clock.seen(1_000_000 + round(n * WINDOW_S * 1.1 * 1_000_000))
    assert clock.now_us() == 1_000_000 + round(3 * WINDOW_S * 1.1 * 1_000_000)


def test_what_was_known_long_ago_does_not_count(local: Local) -> None:
    clock = ServerClock(None)
    clock.seen(5_000_000)
    assert clock.is_fresh()
    local.s += TRUSTED_S + 1
    assert not clock.is_fresh()
    clock.seen(7_000_000)
    assert clock.now_us() == 7_000_000


def test_a_clock_that_is_handed_in_stands_for_it(local: Local) -> None:
    stand_in = ManualClock(42)
    clock = ServerClock(stand_in)
    clock.seen(5_000_000)
    assert clock.now_us() == clock.given_us() == 42
    assert clock.is_fresh()
    assert ServerClock(None).given_us() is None
