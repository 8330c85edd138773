"""W6: bytes per turn, of the files as the fill left them."""

from __future__ import annotations

from typing import Final

from bench import entries, wire
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.remote import ContenderFailed
from bench.stand import Stand

BAR: Final = Bar("at most", 1.6)
CASE: Final = "bytes per turn"


def run(stand: Stand, _seconds: float) -> list[Row]:
    stand.build()
    payload = Series([stand.work.payload_bytes])
    rows = [row("W6", CASE, "JSON payload", "B", payload)]
    found = [entries.FLOOR, *([entries.OURS_ASYNC] if stand.has_ours else [])]
    for entry in [*found, *stand.peers_there]:
        if entry.rewrites:
            rows += rewriting(stand, entry, payload)
            continue
        turns = sum(depth for _, depth in stand.histories(entry))
        title = "ours" if entry.kind == "ours" else entry.title
        bar = BAR if entry.kind == "ours" else None
        rows.append(
            disk_row(title, stand.bytes_per_turn[entry.key], payload, bar, f"{turns:,} turns")
        )
    return rows


def rewriting(stand: Stand, entry: Entry, payload: Series, workload: str = "W6") -> list[Row]:
    """One session of fewer turns: each turn of these stores the whole history once more."""
    turns = stand.sizes.rewriting_turns
    name = f"disk-{entry.key}"
    try:
        remote = stand.start(entry, name)
        try:
            remote.ask(wire.Create([1]))
            remote.ask(wire.Commits([1] * turns))
            remote.ask(wire.Reopen())
        finally:
            remote.leave()
    except ContenderFailed as error:
        stand.drop(entry, error)
        return []
    note = f"one session after {turns} turns; grows with the history"
    value = stand.size_bytes(name) / turns
    return [disk_row(entry.title, value, payload, None, note, workload)]


def disk_row(
    title: str, value: float, payload: Series, bar: Bar | None, note: str, workload: str = "W6"
) -> Row:
    floor = ("payload", payload)
    return row(workload, CASE, title, "B", Series([value]), floor=floor, bar=bar, note=note)
