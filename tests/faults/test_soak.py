"""Mixed load for a long time: memory, descriptors, threads and the log stop growing.

Each soak runs in a process of its own, since memory that another test freed would hide a leak.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from ledgerstone.testing.faults.processes import Child
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place
from tests.faults.soak_load import soak
from tests.faults.soak_meter import LIMITS, MIB, Sample, Times, judge, table, thirds

SMALL = Times(warm_up_s=24, end_s=60, every_s=1)
FULL = Times(warm_up_s=600, end_s=3600, every_s=10)
SHORT = Times(warm_up_s=3, end_s=15, every_s=0.5)
SLACK_S = 240
"""Seconds for starting, and for ending the steps under way."""
LEAK_BYTES = 16_384
"""What the planted leak keeps of each step."""
TITLE = "mixed load, nothing grows"
KNOWN_GROWTH = {"file": {"rss": 200, "malloc": 200, "blocks": 2, "cached": 1}}
"""Growth per step that is by design: the file backend remembers the number of lines of every
journal that a purge removed (`Loaded.dropped`), and nearly every step purges a session."""


@pytest.mark.faults
@pytest.mark.nightly
@pytest.mark.timeout(FULL.end_s + 2 * SLACK_S)
@pytest.mark.parametrize("name", ["sqlite", "memory", "file"])
def test_nothing_grows_under_mixed_load(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale, seed: int, name: str
) -> None:
    times = (SMALL, FULL)[scale(0, 1)]
    with scoreboard.line(TITLE, name, seed) as line, quick_disk(tmp_path) as folder:
        run(line, PLACES[name], folder, times, seed)


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("name", ["sqlite", "memory", "file"])
def test_control_a_planted_leak_is_found(
    tmp_path: Path, scoreboard: Scoreboard, seed: int, name: str
) -> None:
    with (
        scoreboard.line(f"{TITLE}, 16 KiB kept of each step", name, seed, control=True) as line,
        quick_disk(tmp_path) as folder,
    ):
        run(line, PLACES[name], folder, SHORT, seed, LEAK_BYTES)
        assert any(text.startswith("malloc") for text in line.violations)


def run(
    line: Line, place: Place, folder: Path, times: Times, seed: int, leak_bytes: int = 0
) -> None:
    """Soak in a child and judge what it said."""
    log = place.where(folder) + "-wal"
    child = Child(soak, place.at(folder), log, times, seed, leak_bytes)
    try:
        said = list(child.hear(times.end_s + SLACK_S))
    finally:
        child.kill()
    samples = [msgspec.msgpack.decode(one, type=Sample) for one in said]
    print(table(samples))
    line.n = samples[-1].steps
    line.violations += judge(samples, KNOWN_GROWTH.get(place.name))
    first, last = thirds(samples, "rss")
    line.note = f"RSS {first / MIB:.1f} to {last / MIB:.1f} MiB in {times.end_s / 60:.0f} min"


FLAT = Sample(0, 0, 60 * MIB, 200_000, 15 * MIB, 4 * MIB, 27, 12, 32 * MIB, 5_000)


def test_noise_is_no_growth() -> None:
    noisy = [replace(FLAT, rss=FLAT.rss + n % 3 * MIB, threads=12 + n % 2) for n in range(30)]
    assert list(judge(noisy)) == []


@pytest.mark.parametrize("name", LIMITS)
def test_growth_is_found_in_every_measure(name: str) -> None:
    step = LIMITS[name] // 10 + 1
    grown = [replace(FLAT, **{name: getattr(FLAT, name) + n * step}) for n in range(30)]
    assert [text.split()[0] for text in judge(grown)] == [name]


def test_too_few_samples_are_no_proof() -> None:
    assert list(judge([FLAT] * 3))
