"""`python -m bench.postgres.drivers`: the real commit through each driver, at 1 and at 64 sessions.

The table of docs/adr/0022. Both faces call the same function of the database; asyncpg is driven by
one event loop, psycopg by a thread per session. They take turns, in a process and a database each.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench import table, wire
from bench.contender import Entry
from bench.measure import Row, Series, row
from bench.postgres import entries
from bench.postgres.stand import PostgresStand
from bench.remote import Remote, leave_all
from bench.rounds import Rounds
from bench.sizes import FULL, QUICK

SECONDS: Final = 20.0
LONE: Final = list(range(1, 11))
BUSY: Final = list(range(101, 165))
TURNS: Final = 8
DRIVERS: Final = (entries.OURS_ASYNC, entries.OURS)
TITLES: Final = {
    entries.OURS_ASYNC: "asyncpg, one event loop",
    entries.OURS: "psycopg, a thread per session",
}


def main() -> None:
    quick = "--quick" in sys.argv
    with tempfile.TemporaryDirectory(prefix="ledgerstone-drivers-") as directory:
        seed = random.SystemRandom().randrange(1 << 31)
        stand = PostgresStand(Path(directory), seed, QUICK if quick else FULL, with_peers=False)
        try:
            print(table.markdown(run(stand, SECONDS / 4 if quick else SECONDS)))
            print("\n" + "; ".join(stand.notes))
        finally:
            stand.close()


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    lone = {entry: Series() for entry in DRIVERS}
    busy = {entry: Series() for entry in DRIVERS}
    cpu_us: dict[tuple[Entry, str], list[float]] = {}
    remotes: dict[Entry, Remote] = {}
    try:
        for remote in stand.start_all([(entry, f"driver-{entry.key}") for entry in DRIVERS]):
            remotes[remote.entry] = remote
            remote.ask(wire.Create([*LONE, *BUSY]))
            remote.ask(wire.Commits([*LONE, *BUSY]))
        rounds = Rounds(seconds, least=stand.sizes.least_rounds)
        for number in rounds:
            for entry in rounds.order(DRIVERS):
                answer = remotes[entry].ask(wire.Commits(LONE))
                lone[entry].add(answer.samples_ms, number)
                cpu_us.setdefault((entry, "lone"), []).append(per_turn_us(answer))
                answer = remotes[entry].ask(crowd(entry, stand.seed))
                rate = answer.count / (answer.ended_s - answer.started_s)
                busy[entry].add([rate], number)
                cpu_us.setdefault((entry, "busy"), []).append(per_turn_us(answer))
    finally:
        leave_all(list(remotes.values()))
    found = [("lone", "1 session", "ms", lone), ("busy", f"{len(BUSY)} sessions", "turns/s", busy)]
    return [
        row(
            "driver",
            case,
            TITLES[entry],
            unit,
            series[entry],
            floor=(TITLES[DRIVERS[0]], series[DRIVERS[0]]),
            note=f"{statistics.median(cpu_us[entry, kind]):.0f} us of the process per turn",
        )
        for kind, case, unit, series in found
        for entry in DRIVERS
    ]


def crowd(entry: Entry, seed: int) -> wire.Ask:
    if entry == entries.OURS:
        return wire.Jobs(BUSY, TURNS, seed, "crowd")
    return wire.Together(BUSY, TURNS)


def per_turn_us(answer: wire.Answer) -> float:
    return answer.cpu_s * 1e6 / answer.count


if __name__ == "__main__":
    main()
