"""Whole lives drawn from a seed: no difference to the model, and the same bytes each time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.testing.faults.folder_stage import FolderStage
from ledgerstone.testing.faults.sabotage import CommitsInHalves
from ledgerstone.testing.faults.simulation import LIVES, simulate
from ledgerstone.testing.faults.storage import Stage
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(1800)]

STAGES: dict[str, type[Stage]] = {"sqlite": Stage, "file": FolderStage}
CONTROL_SEEDS = 30

every_backend = pytest.mark.parametrize("backend", STAGES)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as quick:
        yield quick


@every_backend
def test_every_life_fits_the_model(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int, backend: str
) -> None:
    with scoreboard.line("simulated lives with faults and power cuts", backend, seed) as line:
        commands = acked = 0
        for one in range(seed, seed + scale(20, 1000)):
            outcome = simulate(folder, one, stage=STAGES[backend])
            line.violations += [f"simulation {one}: {text}" for text in outcome.violations]
            commands, acked = commands + outcome.commands, acked + outcome.acked
            line.n += 1
        line.note = f"{LIVES} lives each, {commands} commands, {acked} acknowledged"
        assert acked > line.n


@every_backend
def test_a_seed_gives_the_same_bytes_again(
    folder: Path, scoreboard: Scoreboard, scale: Scale, seed: int, backend: str
) -> None:
    """Every answer and every byte of every surviving file."""
    with scoreboard.line("a simulation is repeated to the byte", backend, seed) as line:
        digests = set()
        for one in range(seed, seed + scale(5, 50)):
            first = simulate(folder, one, stage=STAGES[backend])
            again = simulate(folder, one, stage=STAGES[backend])
            digests.add(first.digest)
            line.n += 1
            if first.digest != again.digest:
                line.violations.append(f"simulation {one} went another way the second time")
        # Other seeds give other bytes: the digest does cover something.
        assert len(digests) == line.n


LIES: dict[str, dict[str, Any]] = {
    "turns in two transactions": {"change": CommitsInHalves},
    "flushes that do nothing": {"lying": True},
}


@every_backend
@pytest.mark.parametrize("name", LIES)
def test_control_a_lie_is_found_out(
    folder: Path, scoreboard: Scoreboard, seed: int, name: str, backend: str
) -> None:
    with scoreboard.line(f"simulated lives: {name}", backend, seed, control=True) as line:
        for one in range(seed, seed + CONTROL_SEEDS):
            line.n += 1
            outcome = simulate(folder, one, stage=STAGES[backend], **LIES[name])
            line.violations = outcome.violations
            if line.violations:
                break
