"""P4: four processes with eight sessions each, all on one database."""

from __future__ import annotations

from bench.contender import Entry
from bench.measure import Row, percentile, row
from bench.postgres import bars, entries
from bench.postgres.stand import PostgresStand
from bench.remote import ContenderFailed
from bench.rounds import Rounds
from bench.workloads.processes import PEER_ROUNDS_MAX, PEERS_SHARE, Pool


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    ours = [entries.OURS_ASYNC] if stand.has_ours else []
    floors = (entries.GROUP, entries.GROUP_AGAIN, entries.POOL)
    pools = [Pool(stand, entry) for entry in (*floors, *ours)]
    peers = stand.peers if stand.sizes.peers_in_processes else []
    if stand.peers and not peers:
        stand.notes.append("P4 without the peers in a quick run")
    rows: list[Row] = []
    try:
        share = 1 - PEERS_SHARE if peers else 1.0
        rounds = Rounds(seconds * share, least=stand.sizes.least_rounds)
        for number in rounds:
            for pool in rounds.order(pools):
                pool.go(number)
        floor = pools[0]
        for pool in pools:
            rows += pool_rows(pool, floor)
        if ours:
            rows.append(against_pool(pools[-1], pools[len(floors) - 1]))
        for entry in peers:
            rows += against(stand, entry, floor, seconds * PEERS_SHARE / len(peers))
    finally:
        for pool in pools:
            pool.leave()
    return rows


def against(stand: PostgresStand, entry: Entry, floor: Pool, seconds: float) -> list[Row]:
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
        return []
    return pool_rows(pool, floor)


def pool_rows(pool: Pool, floor: Pool) -> list[Row]:
    case, entry = pool.crew.described, pool.entry
    p99 = percentile(pool.waits_ms, 0.99)
    failed = f"; first error: {pool.errors[0][:80]}" if pool.errors else ""
    rows = [
        row(
            "P4",
            case,
            entry.title,
            "turns/s",
            pool.rates,
            floor=(floor.entry.title, floor.rates),
            bar=bars.PROCESSES if entry.kind == "ours" else None,
            noise=entry == entries.GROUP_AGAIN,
            note=f"p99 {p99:.1f} ms, {len(pool.errors)} errors{failed}",
        )
    ]
    if entry.kind == "ours":
        rows.append(errors_row(case, pool))
    return rows


def against_pool(ours: Pool, pool: Pool) -> Row:
    """The same against the floor that sends each turn by itself, as most programs would."""
    return row(
        "P4",
        f"{ours.crew.described}, against each turn by itself",
        ours.entry.title,
        "turns/s",
        ours.rates,
        floor=(pool.entry.title, pool.rates),
    )


def errors_row(case: str, pool: Pool) -> Row:
    done, count = len(pool.waits_ms), len(pool.errors)
    return Row(
        workload="P4",
        case=f"{case}, errors",
        contender=pool.entry.title,
        unit="commits",
        median=done,
        p10=done,
        p90=done,
        samples=1,
        bar="0 errors",
        verdict="missed" if count else "ok",
        note=f"{count} errors",
    )
