"""W4: four processes with eight sessions each, all on one file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bench import entries, wire
from bench.contender import Entry
from bench.crew import Crew, span_s
from bench.measure import Bar, Row, Series, Verdict, percentile, row
from bench.remote import ContenderFailed
from bench.rounds import Rounds
from bench.stand import Stand

PEERS_SHARE: Final = 0.4
PEER_ROUNDS_MAX: Final = 5
BAR: Final = Bar("at least", 0.7)
P99_MS: Final = 25.0
FLOOR_P99_MS: Final = 18.0
"""The bar of 25 ms is meant for a machine where the floor itself stays below this."""


class Pool:
    """The processes of one contender on one file, and what they did."""

    def __init__(self, stand: Stand, entry: Entry) -> None:
        self.entry = entry
        self.rates = Series()
        self.waits_ms: list[float] = []
        self.errors: list[str] = []
        sizes = stand.sizes
        self.turns = sizes.busy_turns_slow if entry.slow else sizes.busy_turns
        self.crew = Crew(stand, entry, f"processes-{entry.key}")

    def go(self, number: int) -> None:
        answers = self.crew.ask(lambda sessions: wire.Together(sessions, self.turns))
        done = sum(one.count for one in answers)
        self.errors += [error for one in answers for error in one.errors]
        self.waits_ms += [sample for one in answers for sample in one.samples_ms]
        if done:
            self.rates.add([done / span_s(answers)], number)

    def leave(self) -> None:
        self.crew.leave()


RowsOf = Callable[[Pool, Pool], list[Row]]


def run(stand: Stand, seconds: float) -> list[Row]:
    ours = [entries.OURS_ASYNC] if stand.has_ours else []
    found = [entries.LOCKED, entries.LOCKED_AGAIN, *ours]
    return raced("W4", stand, seconds, found, pool_rows)[0]


def raced(
    name: str, stand: Stand, seconds: float, found: list[Entry], rows_of: RowsOf
) -> tuple[list[Row], list[Pool]]:
    """All pools in turn, the first one as the floor; then each peer against that one."""
    pools = [Pool(stand, entry) for entry in found]
    peers = stand.peers if stand.sizes.peers_in_processes else []
    if stand.peers and not peers:
        stand.notes.append(f"{name} without the peers in a quick run")
    rows: list[Row] = []
    try:
        share = 1 - PEERS_SHARE if peers else 1.0
        rounds = Rounds(seconds * share, least=stand.sizes.least_rounds)
        for number in rounds:
            for pool in rounds.order(pools):
                pool.go(number)
        floor = pools[0]
        for pool in pools:
            rows += rows_of(pool, floor)
        for entry in peers:
            other = against(stand, entry, floor, seconds * PEERS_SHARE / len(peers))
            rows += [] if other is None else rows_of(other, floor)
    finally:
        for pool in pools:
            pool.leave()
    return rows, pools


def against(stand: Stand, entry: Entry, floor: Pool, seconds: float) -> Pool | None:
    """A peer and the floor in turn; not all peers at once, which would need gigabytes."""
    first = len(floor.rates.rounds)
    try:
        pool = Pool(stand, entry)
        try:
            rounds = Rounds(seconds, least=stand.sizes.peer_rounds, most=PEER_ROUNDS_MAX)
            for number in rounds:
                for one in rounds.order([pool, floor]):
                    one.go(first + number)
        finally:
            pool.leave()
    except ContenderFailed as error:
        stand.drop(entry, error)
        return None
    return pool


def pool_rows(pool: Pool, floor: Pool) -> list[Row]:
    case, entry = pool.crew.described, pool.entry
    p99 = percentile(pool.waits_ms, 0.99)
    failed = f"; first error: {pool.errors[0][:80]}" if pool.errors else ""
    rows = [
        row(
            "W4",
            case,
            entry.title,
            "turns/s",
            pool.rates,
            floor=(floor.entry.title, floor.rates),
            bar=BAR if entry.kind == "ours" else None,
            noise=entry is entries.LOCKED_AGAIN,
            note=f"p99 {p99:.1f} ms, {len(pool.errors)} errors{failed}",
        )
    ]
    if entry.kind == "ours":
        rows.append(p99_row(case, pool, p99, percentile(floor.waits_ms, 0.99)))
    return rows


def p99_row(case: str, pool: Pool, p99: float, floor_p99: float) -> Row:
    return Row(
        workload="W4",
        case=f"{case}, p99 and errors",
        contender=pool.entry.title,
        unit="ms",
        median=p99,
        p10=p99,
        p90=p99,
        samples=1,
        floor=entries.LOCKED.title,
        ratio=p99 / floor_p99,
        bar=f"at most {P99_MS:g} ms, 0 errors",
        verdict=judge_p99(p99, floor_p99, len(pool.errors)),
        note=f"{len(pool.errors)} errors",
    )


def judge_p99(p99_ms: float, floor_ms: float, errors: int) -> Verdict:
    """An error is a miss anywhere; a slow answer only where the floor is quick."""
    if errors:
        return "missed"
    if p99_ms <= P99_MS:
        return "ok"
    return "missed" if floor_ms <= FLOOR_P99_MS else "unclear"
