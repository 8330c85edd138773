"""What is measured, and how samples become a row: medians, spread, ratios within one run."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Direction = Literal["at most", "at least"]
Verdict = Literal["ok", "missed", "unclear", "noise"]


class Bar(msgspec.Struct, frozen=True):
    """What `performance.md` asks for: a ratio to the named floor."""

    direction: Direction
    limit: float

    def judge(self, ratio: float, quiet: float) -> Verdict:
        """What both ratios say: on a disk in a slow phase any commit looks like the floor."""
        held = [self._holds(ratio), self._holds(quiet)]
        if all(held):
            return "ok"
        return "unclear" if any(held) else "missed"

    def _holds(self, ratio: float) -> bool:
        return ratio <= self.limit if self.direction == "at most" else ratio >= self.limit

    def __str__(self) -> str:
        return f"{self.direction} {self.limit:g}x"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report: one contender in one case.

    `ratio` pairs the rounds; `quiet` compares the best tenth of both. When the disk is slow for
    a while, the sync hides everything else and `ratio` drifts towards 1; `quiet` does not.
    """

    workload: str
    case: str
    contender: str
    unit: str
    median: float
    p10: float
    p90: float
    samples: int
    floor: str | None = None
    ratio: float | None = None
    ratio_p10: float | None = None
    ratio_p90: float | None = None
    quiet: float | None = None
    bar: str | None = None
    verdict: Verdict | None = None
    note: str = ""


class Series:
    """The samples of one contender in one case, kept by round; not everyone is in every round."""

    def __init__(self, samples: Sequence[float] = ()) -> None:
        self.rounds: dict[int, list[float]] = {0: list(samples)} if samples else {}

    def add(self, samples: Sequence[float], number: int | None = None) -> None:
        self.rounds[len(self.rounds) if number is None else number] = list(samples)

    @property
    def samples(self) -> list[float]:
        return [sample for one in self.rounds.values() for sample in one]

    @property
    def medians(self) -> dict[int, float]:
        return {number: statistics.median(one) for number, one in self.rounds.items()}


def percentile(samples: Iterable[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[round(share * (len(ordered) - 1))]


def ratios(ours: Series, floor: Series) -> list[float]:
    """Round against round: what disturbs the machine for a second disturbs both."""
    mine, least = ours.medians, floor.medians
    return [mine[number] / least[number] for number in mine if number in least]


def over(series: Series, base: Series) -> Series:
    """One series divided by another, round by round."""
    made = Series()
    for number, median in series.medians.items():
        if number in base.medians:
            made.add([median / base.medians[number]], number)
    return made


def row(
    workload: str,
    case: str,
    contender: str,
    unit: str,
    series: Series,
    *,
    floor: tuple[str, Series] | None = None,
    bar: Bar | None = None,
    noise: bool = False,
    note: str = "",
) -> Row:
    """A row of the report; `noise` marks the floor against itself, which has nothing to reach."""
    samples = series.samples
    line = Row(
        workload=workload,
        case=case,
        contender=contender,
        unit=unit,
        median=statistics.median(samples),
        p10=percentile(samples, 0.1),
        p90=percentile(samples, 0.9),
        samples=len(samples),
        note=note,
    )
    if floor is None or floor[1] is series:
        return line
    paired = ratios(series, floor[1])
    ratio = statistics.median(paired)
    best = 0.9 if unit.endswith("/s") else 0.1
    quiet = percentile(samples, best) / percentile(floor[1].samples, best)
    verdict = bar.judge(ratio, quiet) if bar else None
    return msgspec.structs.replace(
        line,
        floor=floor[0],
        ratio=ratio,
        ratio_p10=percentile(paired, 0.1),
        ratio_p90=percentile(paired, 0.9),
        quiet=quiet,
        bar=str(bar) if bar else None,
        verdict="noise" if noise else verdict,
    )
