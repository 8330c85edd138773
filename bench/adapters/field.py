"""Contenders of one workload, side by side: filled alike, asked in turn, checked at the end."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from bench import wire
from bench.adapters.stand import AdapterStand
from bench.contender import Entry
from bench.measure import Bar, Row, Series, percentile, ratios, row
from bench.remote import ContenderFailed
from bench.rounds import Rounds
from bench.stand import READ

COMMITS: Final = 4
PEERS_SHARE: Final = 0.5
LEAST_MS: Final = 0.001
"""What is left of a loop after the same loop is taken away; noise must not make it less."""

WARM: Final = READ + 1
"""A session that nobody measures: with it everything is used once before any clock runs."""

Asks: TypeAlias = Mapping[str, Callable[[Entry, int], wire.Ask]]
Cases: TypeAlias = dict[tuple[str, str], Series]


def commits(stand: AdapterStand, entry: Entry, number: int) -> wire.Commits:
    """Turns of different sessions, the same ones for everybody in the same round."""
    pool = [one for one, _ in stand.histories(entry) if one != READ]
    start = number * COMMITS
    return wire.Commits([pool[place % len(pool)] for place in range(start, start + COMMITS)])


def measured(stand: AdapterStand, there: Sequence[Entry], asks: Asks, seconds: float) -> Cases:
    """Every case of every contender, round after round."""
    cases: Cases = {}
    warm_up(stand, there)
    peers = sum(entry.kind == "peer" for entry in there) * len(asks) or 1
    rounds = Rounds(
        seconds,
        least=stand.sizes.least_rounds,
        peer_least=stand.sizes.peer_rounds,
        allowance_s=seconds * PEERS_SHARE / peers,
    )
    for number in rounds:
        for case, ask in asks.items():
            for entry in rounds.order(there):
                place = (case, entry.key)
                sits_out = entry.kind == "peer" and rounds.sits_out(place)
                if entry.key not in stand.remotes or sits_out:
                    continue
                begun = time.monotonic()
                try:
                    answer = stand.remotes[entry.key].ask(ask(entry, number))
                except ContenderFailed as error:
                    stand.drop(entry, error)
                    continue
                rounds.spend(place, time.monotonic() - begun)
                cases.setdefault(place, Series()).add(answer.samples_ms, number)
    return {place: one for place, one in cases.items() if place[1] in stand.remotes}


def warm_up(stand: AdapterStand, there: Sequence[Entry]) -> None:
    for entry in there:
        try:
            stand.remotes[entry.key].ask(wire.Create([WARM]))
            stand.remotes[entry.key].ask(wire.Commits([WARM, WARM]))
            stand.remotes[entry.key].ask(wire.Timed("load", [READ], 1))
        except ContenderFailed as error:
            stand.drop(entry, error)


def check(stand: AdapterStand, there: Sequence[Entry], cases: Cases, case: str) -> None:
    """Whoever loads anything but what was written is thrown out."""
    for entry in there:
        series = cases.get((case, entry.key))
        if series is None or entry.key not in stand.remotes:
            continue
        histories = dict(stand.histories(entry))
        first = next(iter(histories))
        asked = [commits(stand, entry, number) for number in series.rounds]
        turns = sum(ask.numbers.count(first) for ask in asked)
        wanted = entry.per_turn * (histories[first] + turns)
        try:
            found = stand.remotes[entry.key].ask(wire.Timed("load", [first], 1)).count
            if found != wanted:
                raise ContenderFailed(f"{entry.title} loaded {found}, not {wanted}")
        except ContenderFailed as error:
            stand.drop(entry, error)


def excess(series: Series, least: Series) -> Series:
    """What is left of each sample when the loop itself is taken away, round by round."""
    made, floors = Series(), least.medians
    for number, samples in series.rounds.items():
        if number in floors:
            left = [max(sample - floors[number], LEAST_MS) for sample in samples]
            made.add(left, number)
    return made


def excess_row(
    workload: str,
    case: str,
    entry: Entry,
    series: Series,
    least: Series,
    *,
    peer: tuple[Entry, Series] | None = None,
    bar: Bar | None = None,
) -> Row:
    """The time of the persistence alone; `quiet` takes the best tenths before it subtracts."""
    line = row(workload, case, entry.title, "ms", excess(series, least))
    if peer is None:
        return line
    theirs, title = peer[1], peer[0].title
    paired = ratios(excess(series, least), excess(theirs, least))
    best = [percentile(one.samples, 0.1) for one in (series, theirs, least)]
    quiet = max(best[0] - best[2], LEAST_MS) / max(best[1] - best[2], LEAST_MS)
    ratio = statistics.median(paired)
    return msgspec.structs.replace(
        line,
        floor=title,
        ratio=ratio,
        ratio_p10=percentile(paired, 0.1),
        ratio_p90=percentile(paired, 0.9),
        quiet=quiet,
        bar=str(bar) if bar else None,
        verdict=bar.judge(ratio, quiet) if bar else None,
        note=f"{1 / ratio:.1f} times as fast" if ratio <= 0.9 else "",
    )
