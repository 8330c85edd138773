"""Clocks that jump, leases that end, strangers who try: only the last grant is ever accepted."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from ledgerstone.testing.faults.clocks import HOUR_S, START_US, Handle, JumpingClock, Walk
from ledgerstone.testing.faults.crowds import switching_often
from ledgerstone.testing.faults.expiry import Ends, race_for_the_end, try_as_a_stranger
from ledgerstone.testing.faults.sabotage_rules import IgnoresFence
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.places import PLACES, Place, every_place, opened

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SQLITE = PLACES["sqlite"]
SKEWS_S = (0, HOUR_S, -24 * HOUR_S)


# --- jumps


@every_place
def test_clocks_that_jump(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    """Where several may open the place, three do, with clocks that are hours apart."""
    with (
        scoreboard.line("leases while the clocks jump", place.name, seed) as line,
        quick_disk(tmp_path) as folder,
        ExitStack() as stack,
    ):
        handles = []
        for skew_s in SKEWS_S if place.processes else SKEWS_S[:1]:
            clock = JumpingClock(START_US + skew_s * 1_000_000)
            handles.append(Handle(place.at(folder, clock)(), clock))
            stack.callback(handles[-1].backend.close)
        walk = Walk(handles, seed)
        line.n = scale(3_000, 50_000)
        line.violations += walk.steps(line.n)
        line.violations += walk.ending()
        line.note = f"{walk.commits:,} commits accepted, {walk.refused:,} calls refused"
        assert walk.commits > line.n / 100
        assert walk.refused > line.n / 100


def test_control_jumps_with_a_store_that_ignores_the_fence(
    tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    clock = JumpingClock()
    with (
        scoreboard.line("clocks jump, IgnoresFence", "sqlite", seed, control=True) as line,
        opened(SQLITE, tmp_path, clock) as backend,
    ):
        line.n = 300
        line.violations += Walk([Handle(IgnoresFence(backend), clock)], seed).steps(line.n)


# --- the end of a lease


def run_ends(place: Place, folder: Path, rounds: int, seed: int) -> Ends:
    make = place.at(folder)
    with ExitStack() as stack, switching_often():
        holder = make()
        stack.callback(holder.close)
        rival = holder
        if place.processes:
            rival = make()
            stack.callback(rival.close)
        return race_for_the_end(holder, rival, rounds, seed, trip_us=place.trip_us)


@every_place
def test_renewal_against_takeover(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line("renewal races the end of the lease", place.name, seed) as line,
        quick_disk(tmp_path) as folder,
    ):
        line.n = scale(300, 10_000)
        ends = run_ends(place, folder, line.n, seed)
        line.violations += ends.violations
        line.note = f"{ends.renewed:,} renewed, {ends.taken:,} taken, {ends.neither:,} neither"
        assert ends.renewed > line.n / 100, "no race"
        assert ends.taken > line.n / 100, "no race"


def test_control_a_renewal_that_always_succeeds_is_found(
    tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("renewal at the end, IgnoresFence", "sqlite", seed, control=True) as line,
        opened(SQLITE, tmp_path) as backend,
    ):
        line.n = 50
        line.violations += race_for_the_end(IgnoresFence(backend), backend, line.n, seed).violations


@every_place
def test_strangers(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line("renew, release, commit of a stranger", place.name, seed) as line,
        opened(place, tmp_path) as backend,
    ):
        line.n = scale(1_000, 10_000)
        line.violations += try_as_a_stranger(backend, line.n, seed)


def test_control_a_stranger_who_is_let_in_is_found(
    tmp_path: Path, seed: int, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("a stranger, IgnoresFence", "sqlite", seed, control=True) as line,
        opened(SQLITE, tmp_path) as backend,
    ):
        line.n = 100
        line.violations += try_as_a_stranger(IgnoresFence(backend), line.n, seed)
