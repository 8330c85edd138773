"""What is measured, and how samples become a row: medians, spread, ratios within one run."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Iterable, Sequence
from typing import Literal, Protocol

import msgspec

from bench.work import Turn

Direction = Literal["at most", "at least"]
Verdict = Literal["ok", "missed", "unclear"]


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


class Writer(Protocol):
    """Anything that commits a turn; the blocking ones return None, the others an awaitable."""

    @property
    def name(self) -> str: ...

    def create(self, numbers: Iterable[int]) -> Awaitable[None] | None: ...

    def commit(self, number: int, turn: Turn) -> Awaitable[None] | None: ...

    def tidy(self) -> None: ...


class Reader(Protocol):
    """Anything that gives back messages as typed objects."""

    @property
    def name(self) -> str: ...

    def load(self, number: int) -> Awaitable[Sequence[object]] | Sequence[object]: ...

    def last(self, number: int, count: int) -> Awaitable[Sequence[object]] | Sequence[object]: ...


class Series:
    """The samples of one contender in one case, kept by round."""

    def __init__(self) -> None:
        self.rounds: list[list[float]] = []

    def add(self, samples: list[float]) -> None:
        self.rounds.append(samples)

    @property
    def samples(self) -> list[float]:
        return [sample for one in self.rounds for sample in one]

    @property
    def medians(self) -> list[float]:
        return [statistics.median(one) for one in self.rounds]


def percentile(samples: Iterable[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[round(share * (len(ordered) - 1))]


def ratios(ours: Series, floor: Series) -> list[float]:
    """Round against round: what disturbs the machine for a second disturbs both."""
    return [mine / least for mine, least in zip(ours.medians, floor.medians, strict=True)]


def row(
    workload: str,
    case: str,
    contender: str,
    unit: str,
    series: Series,
    *,
    floor: tuple[str, Series] | None = None,
    bar: Bar | None = None,
    note: str = "",
) -> Row:
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
    return msgspec.structs.replace(
        line,
        floor=floor[0],
        ratio=ratio,
        ratio_p10=percentile(paired, 0.1),
        ratio_p90=percentile(paired, 0.9),
        quiet=quiet,
        bar=str(bar) if bar else None,
        verdict=bar.judge(ratio, quiet) if bar else None,
    )
