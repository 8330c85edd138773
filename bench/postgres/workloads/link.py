"""P13: lone commits over a link with 2 ms round trip, and how many round trips each one is."""

from __future__ import annotations

import statistics
from typing import Final

from bench import wire
from bench.contender import Entry
from bench.measure import Row, Series, row
from bench.postgres import bars, entries
from bench.postgres.stand import PostgresStand
from bench.remote import Remote, leave_all
from bench.rounds import Rounds

ROUND_TRIP_S: Final = 0.002
SESSIONS: Final = list(range(1, 11))
FLOORS: Final = (entries.BARE, entries.POOL)
WORD: Final = f"a link of {ROUND_TRIP_S * 1000:g} ms"


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    """Everybody on the quick and on the slow wire in turn: the difference is its round trips."""
    from ledgerstone.testing.servers.proxy import Proxy

    ours = [entries.OURS_ASYNC, entries.OURS] if stand.has_ours else []
    found = [*FLOORS, *ours]
    slow = {entry: Series() for entry in found}
    quick = {entry: Series() for entry in found}
    counted: dict[Entry, list[float]] = {entry: [] for entry in found}
    remotes: dict[Entry, Remote] = {}
    with Proxy(stand.server.port) as proxy:
        try:
            for entry in found:
                name = f"link-{entry.key}"
                path = stand.path(name)
                path.write_text(proxy.url(path.read_text(encoding="utf-8")), encoding="utf-8")
                remotes[entry] = Remote(entry, path, stand.seed)
                remotes[entry].hear()
                remotes[entry].ask(wire.Create(SESSIONS))
                remotes[entry].ask(wire.Commits(SESSIONS * 2))
            rounds = Rounds(seconds, least=stand.sizes.least_rounds)
            for number in rounds:
                for entry in rounds.order(found):
                    for latency_s, series in ((0.0, quick), (ROUND_TRIP_S / 2, slow)):
                        proxy.latency_s = latency_s
                        before = proxy.counts.round_trips
                        answer = remotes[entry].ask(wire.Commits(SESSIONS))
                        series[entry].add(answer.samples_ms, number)
                        passed = proxy.counts.round_trips - before
                        counted[entry].append(passed / len(SESSIONS))
        finally:
            proxy.latency_s = 0.0
            leave_all(list(remotes.values()))
    return [
        *(lone_row(entry, slow) for entry in found),
        *(trips_row(entry, slow, quick, counted[entry]) for entry in found),
    ]


def lone_row(entry: Entry, slow: dict[Entry, Series]) -> Row:
    case = f"lone commit over {WORD}"
    floor = (entries.BARE.title, slow[entries.BARE])
    return row("P13", case, entry.title, "ms", slow[entry], floor=floor)


def trips_row(
    entry: Entry, slow: dict[Entry, Series], quick: dict[Entry, Series], counted: list[float]
) -> Row:
    """As the wire saw them; the answers must also come that much later than on a quick wire."""
    trips = statistics.median(counted)
    later_ms = statistics.median(slow[entry].samples) - statistics.median(quick[entry].samples)
    bar = bars.ROUND_TRIPS if entry.kind == "ours" else None
    # What else the process says now and then, a wake-up for others, is no whole trip per commit.
    whole = float(round(trips))
    return Row(
        workload="P13",
        case=f"round trips per commit over {WORD}",
        contender=entry.title,
        unit="trips",
        median=trips,
        p10=min(counted),
        p90=max(counted),
        samples=len(counted),
        bar=f"{bar.direction} {bar.limit:g}" if bar else None,
        verdict=bar.judge(whole, whole) if bar else None,
        note=f"answers {later_ms:.1f} ms later than without latency",
    )
