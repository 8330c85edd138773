"""W2: all messages of a deep session as typed objects; the last 50 only."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from bench import entries, wire
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.remote import ContenderFailed
from bench.rounds import Rounds
from bench.stand import READ, SHALLOW_FROM, Stand

LOADS: Final = 2
LASTS: Final = 10
PEER_CALLS: Final = 2
LAST_COUNT: Final = 50
PEERS_SHARE: Final = 0.5
Cases = dict[tuple[str, str], Series]

LOAD: Final = {entries.OURS: Bar("at most", 1.3), entries.OURS_ASYNC: Bar("at most", 1.4)}
LAST: Final = {entries.OURS: Bar("at most", 2), entries.OURS_ASYNC: Bar("at most", 3)}
FLAT: Final = Bar("at most", 1.5)


def run(stand: Stand, seconds: float) -> list[Row]:
    stand.build()
    depth = stand.sizes.deep_depth
    found = contenders(stand)
    series = measured(stand, seconds, found)
    there = [entry for entry in found if entry.key in stand.remotes]
    return [
        *case_rows("all", f"load {depth * 4:,} messages", there, series, LOAD),
        *case_rows("last", f"load the last {LAST_COUNT}", there, series, LAST),
        *flat_rows("W2", stand, there, series, FLAT),
    ]


def measured(stand: Stand, seconds: float, found: list[Entry]) -> Cases:
    """Everybody in turn: all messages, the last ones, and the last ones of few."""
    depth = stand.sizes.deep_depth
    asks = {
        "all": wire.Timed("load", [READ], LOADS),
        "last": wire.Timed("last", [READ, LAST_COUNT], LASTS),
        "last of few": wire.Timed("last", [SHALLOW_FROM, LAST_COUNT], LASTS),
    }
    series: Cases = {(case, entry.key): Series() for case in asks for entry in found}
    rounds = Rounds(
        seconds,
        least=stand.sizes.least_rounds,
        peer_least=stand.sizes.peer_rounds,
        allowance_s=seconds * PEERS_SHARE / (len(found) * len(asks)),
    )
    for number in rounds:
        for entry in rounds.order(found):
            for case, ask in asks.items():
                if entry.kind == "peer" and rounds.sits_out((entry.key, case)):
                    continue
                if entry.kind != "ours" and case == "last of few":
                    continue
                times = PEER_CALLS if entry.kind == "peer" else ask.times
                asked = msgspec.structs.replace(ask, times=times)
                wanted = depth * entry.per_turn if case == "all" else LAST_COUNT
                samples = read(stand, rounds, entry, case, asked, wanted)
                if samples:
                    series[case, entry.key].add(samples, number)
    return series


def case_rows(
    case: str, title: str, there: list[Entry], series: Cases, bars: dict[Entry, Bar]
) -> list[Row]:
    return [
        row(
            "W2",
            title,
            entry.title,
            "ms",
            series[case, entry.key],
            floor=(entries.FLOOR.title, series[case, entries.FLOOR.key]),
            bar=bars.get(entry),
            noise=entry is entries.FLOOR_AGAIN,
        )
        for entry in there
        if series[case, entry.key].rounds
    ]


def flat_rows(name: str, stand: Stand, there: list[Entry], series: Cases, bar: Bar) -> list[Row]:
    """The last 50 of many against the last 50 of few: flat in the length of the history."""
    few, many = stand.sizes.shallow_depth, stand.sizes.deep_depth
    return [
        row(
            name,
            f"growth of the last {LAST_COUNT}, H = {few} to {many}",
            entry.title,
            "ms",
            series["last", entry.key],
            floor=(f"at H = {few}", series["last of few", entry.key]),
            bar=bar,
        )
        for entry in there
        if entry.kind == "ours"
    ]


def contenders(stand: Stand) -> list[Entry]:
    ours = [entries.OURS, entries.OURS_ASYNC] if stand.has_ours else []
    deep = [entry for entry in stand.peers_there if stand.has_deep(entry)]
    return [entries.FLOOR, entries.FLOOR_AGAIN, *ours, *deep]


def read(
    stand: Stand, rounds: Rounds, entry: Entry, case: str, ask: wire.Timed, wanted: int
) -> list[float]:
    """The times, when everything was there: a load that leaves something out would win."""
    if entry.key not in stand.remotes:
        return []
    start = time.monotonic()
    try:
        answer = stand.remotes[entry.key].ask(ask)
        if answer.count != wanted:
            raise ContenderFailed(f"{entry.title} loaded {answer.count}, not {wanted}")
    except ContenderFailed as error:
        stand.drop(entry, error)
        return []
    rounds.spend((entry.key, case), time.monotonic() - start)
    return answer.samples_ms
