"""Where the storage tests put their faults: every point at full size, a share of them otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from ledgerstone.testing.faults.storage import Stage, lived
from ledgerstone.testing.scoreboard import Scale

FAR = 1_000_000


def points(scale: Scale, seed: int, stride: int) -> Iterable[int]:
    """1, 2, 3, ...; in a small run every `stride`-th, beginning somewhere."""
    step = scale(stride, 1)
    return range(1 + Random(seed).randrange(step), FAR, step)


def some(stage: Stage, seed: int, number: int) -> list[int]:
    """So many of the operations that an undisturbed play does, spread by the seed."""
    with lived(stage, stage.make_disk()) as life:
        last = life.disk.counts["any"]
    return sorted(Random(seed).sample(range(1, last + 1), min(number, last)))
