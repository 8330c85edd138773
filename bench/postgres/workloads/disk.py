"""P6: bytes per turn of tables and indexes, as the fill left them."""

from __future__ import annotations

from bench.measure import Row, Series, row
from bench.postgres import bars, entries
from bench.postgres.stand import PostgresStand
from bench.workloads.disk import CASE, disk_row, rewriting


def run(stand: PostgresStand, _seconds: float) -> list[Row]:
    stand.build()
    payload = Series([stand.work.payload_bytes])
    rows = [row("P6", CASE, "JSON payload", "B", payload)]
    found = [entries.POOL, *([entries.OURS_ASYNC] if stand.has_ours else [])]
    for entry in [*found, *stand.peers_there]:
        if entry.rewrites:
            rows += rewriting(stand, entry, payload, "P6")
            continue
        turns = sum(depth for _, depth in stand.histories(entry))
        is_ours = entry.kind == "ours"
        title, bar = ("ours", bars.DISK) if is_ours else (entry.title, None)
        value, note = stand.bytes_per_turn[entry.key], f"{turns:,} turns"
        rows.append(disk_row(title, value, payload, bar, note, "P6"))
    return rows
