"""P4: four processes with eight sessions each, all on one database."""

from __future__ import annotations

from bench.measure import Row, percentile, row
from bench.postgres import bars, entries
from bench.postgres.stand import PostgresStand
from bench.workloads.processes import Pool, raced


def run(stand: PostgresStand, seconds: float) -> list[Row]:
    ours = [entries.OURS_ASYNC] if stand.has_ours else []
    floors = (entries.GROUP, entries.GROUP_AGAIN, entries.POOL)
    rows, pools = raced("P4", stand, seconds, [*floors, *ours], pool_rows)
    if ours:
        rows.append(against_pool(pools[-1], pools[len(floors) - 1]))
    return rows


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
