"""W3: 64 sessions that commit at once from one event loop."""

from __future__ import annotations

import time
from typing import Final

from bench import entries, wire
from bench.contender import Entry
from bench.measure import Bar, Row, Series, percentile, row
from bench.remote import ContenderFailed
from bench.rounds import Rounds
from bench.stand import Stand

PEERS_SHARE: Final = 0.5
BAR: Final = Bar("at least", 0.6)
BEST_PEER: Final = Bar("at least", 4)


def run(stand: Stand, seconds: float) -> list[Row]:
    stand.build()
    ours = [entries.OURS_ASYNC] if stand.has_ours else []
    found = [entries.GROUP, entries.GROUP_AGAIN, *ours, *stand.peers_there]
    rates = {entry.key: Series() for entry in found}
    waits: dict[str, list[float]] = {entry.key: [] for entry in found}
    errors = dict.fromkeys(rates, 0)
    peers = len(stand.peers_there) or 1
    rounds = Rounds(
        seconds,
        least=stand.sizes.least_rounds,
        peer_least=stand.sizes.peer_rounds,
        allowance_s=seconds * PEERS_SHARE / peers,
    )
    for number in rounds:
        for entry in rounds.order(found):
            sits_out = entry.kind == "peer" and rounds.sits_out(entry.key)
            if sits_out or entry.key not in stand.remotes:
                continue
            start = time.monotonic()
            answer = together(stand, entry)
            rounds.spend(entry.key, time.monotonic() - start)
            if answer is not None and answer.count:
                rate = answer.count / (answer.ended_s - answer.started_s)
                rates[entry.key].add([rate], number)
                waits[entry.key] += answer.samples_ms
                errors[entry.key] += len(answer.errors)
    there = [entry for entry in found if rates[entry.key].rounds]
    case = f"{len(stand.busy)} sessions at once"
    rows = [
        row(
            "W3",
            case,
            entry.title,
            "turns/s",
            rates[entry.key],
            floor=(entries.GROUP.title, rates[entries.GROUP.key]),
            bar=BAR if entry.kind == "ours" else None,
            noise=entry is entries.GROUP_AGAIN,
            note=waited(waits[entry.key], errors[entry.key]),
        )
        for entry in there
    ]
    return rows + best_peer("W3", entries.OURS_ASYNC, case, there, rates, BEST_PEER)


def together(stand: Stand, entry: Entry) -> wire.Answer | None:
    sizes = stand.sizes
    turns = sizes.busy_turns_slow if entry.slow else sizes.busy_turns
    try:
        return stand.remotes[entry.key].ask(wire.Together(stand.busy, turns))
    except ContenderFailed as error:
        stand.drop(entry, error)
        return None


def waited(waits_ms: list[float], errors: int) -> str:
    p50, p99 = percentile(waits_ms, 0.5), percentile(waits_ms, 0.99)
    failed = f", {errors} errors" if errors else ""
    return f"p50 {p50:.1f}, p99 {p99:.1f} ms{failed}"


def best_peer(
    name: str, ours: Entry, case: str, there: list[Entry], rates: dict[str, Series], bar: Bar
) -> list[Row]:
    """Ours against the peer with the highest rate."""
    peers = [entry for entry in there if entry.kind == "peer"]
    if not peers or ours not in there:
        return []
    best = max(peers, key=lambda entry: percentile(rates[entry.key].samples, 0.5))
    return [
        row(
            name,
            f"{case}, against the best peer",
            ours.title,
            "turns/s",
            rates[ours.key],
            floor=(best.title, rates[best.key]),
            bar=bar,
        )
    ]
