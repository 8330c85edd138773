"""P3: 64 sessions that commit at once from one event loop."""

from __future__ import annotations

import statistics
import time

from bench import wire
from bench.measure import Row, Series, row
from bench.postgres import bars, entries
from bench.postgres.stand import PostgresStand
from bench.rounds import Rounds
from bench.workloads.busy import PEERS_SHARE, best_peer, together, waited


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    stand.build()
    ours = [entries.OURS_ASYNC, entries.OURS] if stand.has_ours else []
    floors = [entries.GROUP, entries.GROUP_AGAIN, entries.POOL]
    found = [*floors, *ours, *stand.peers_there]
    rates = {entry.key: Series() for entry in found}
    waits: dict[str, list[float]] = {entry.key: [] for entry in found}
    errors = dict.fromkeys(rates, 0)
    cpu_us: dict[str, list[float]] = {entry.key: [] for entry in found}
    rounds = Rounds(
        seconds,
        least=stand.sizes.least_rounds,
        peer_least=stand.sizes.peer_rounds,
        allowance_s=seconds * PEERS_SHARE / (len(stand.peers_there) or 1),
    )
    for number in rounds:
        for entry in rounds.order(found):
            sits_out = entry.kind == "peer" and rounds.sits_out(entry.key)
            if sits_out or entry.key not in stand.remotes:
                continue
            start = time.monotonic()
            answer = crowd(stand) if entry == entries.OURS else together(stand, entry)
            rounds.spend(entry.key, time.monotonic() - start)
            if answer is not None and answer.count:
                rate = answer.count / (answer.ended_s - answer.started_s)
                rates[entry.key].add([rate], number)
                waits[entry.key] += answer.samples_ms
                errors[entry.key] += len(answer.errors)
                cpu_us[entry.key].append(answer.cpu_s * 1e6 / answer.count)
    there = [entry for entry in found if rates[entry.key].rounds]
    case = f"{len(stand.busy)} sessions at once"
    rows = [
        row(
            "P3",
            case,
            entry.title,
            "turns/s",
            rates[entry.key],
            floor=(entries.GROUP.title, rates[entries.GROUP.key]),
            bar=bars.BUSY if entry == entries.OURS_ASYNC else None,
            noise=entry == entries.GROUP_AGAIN,
            note=note(waits[entry.key], errors[entry.key], cpu_us[entry.key]),
        )
        for entry in there
    ]
    best = bars.BUSY_BEST_PEER
    return rows + best_peer("P3", entries.OURS_ASYNC, case, there, rates, best)


def note(waits_ms: list[float], errors: int, cpu_us: list[float]) -> str:
    said = waited(waits_ms, errors) if waits_ms else "a thread per session"
    return f"{said}; {statistics.median(cpu_us):.0f} us of the process per turn"


def crowd(stand: PostgresStand) -> wire.Answer:
    """The blocking face: a thread per session, in the process of that face."""
    ask = wire.Jobs(stand.busy, stand.sizes.busy_turns, stand.seed, "crowd")
    return stand.remotes[entries.OURS.key].ask(ask)
