"""A2: what 200 turns of a thousand bytes on either side leave on the disk, and how it grows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bench import wire
from bench.adapters import bars
from bench.adapters import entries as known
from bench.adapters.entries import CHAT_BYTES
from bench.adapters.stand import AdapterStand
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.remote import ContenderFailed

CONTENDERS = {"SQLite": known.CHATS, "PostgreSQL": known.PG_CHATS}
SESSION = 1


def run(stand: AdapterStand, _seconds: float) -> list[Row]:
    rows: list[Row] = []
    turns = stand.sizes.adapter_turns
    for backend, wanted in CONTENDERS.items():
        for entry in stand.there(wanted):
            try:
                sizes = weighed(stand, entry, stops(turns))
            except ContenderFailed as error:
                stand.drop(entry, error)
                continue
            stand.took_part[entry.key] = entry
            rows += disk_rows(backend, entry, sizes)
    return rows


def stops(turns: int) -> list[int]:
    """Every eighth of them: there, PostgreSQL gets what autovacuum does in time."""
    return [turns * eighth // 8 for eighth in range(9)]


def weighed(stand: AdapterStand, entry: Entry, at: Sequence[int]) -> dict[int, int]:
    """The bytes after so many turns, with everything written to where it belongs."""
    remote = stand.start(entry, entry.key)
    try:
        sizes, done = {}, 0
        for turns in at:
            if turns > done:
                remote.ask(wire.Commits([SESSION] * (turns - done)))
            remote.ask(wire.Reopen())
            stand.settle(entry.key)
            sizes[turns], done = stand.size_bytes(entry.key), turns
        loaded = remote.ask(wire.Timed("load", [SESSION], 1)).count
        if loaded != 2 * done:
            raise ContenderFailed(f"{entry.title} loaded {loaded}, not {2 * done}")
        return sizes
    finally:
        remote.leave()


def disk_rows(backend: str, entry: Entry, sizes: dict[int, int]) -> list[Row]:
    """The whole store, what the turns added to it, and whether late turns add more than early."""
    at = list(sizes)
    turns, is_ours = at[-1], entry.kind == "ours"
    text = ("the text", Series([2.0 * CHAT_BYTES * turns]))
    said = f"{turns} turns of 2 x {CHAT_BYTES:,} B"
    empty = sizes[at[0]]
    first = Series([_grown(sizes, at[1], at[2])])
    then = Series([_grown(sizes, at[-2], at[-1])])

    def line(case: str, series: Series, floor: tuple[str, Series] | None, bar: Bar | None) -> Row:
        case = f"{case}, {backend}"
        own = bar if is_ours else None
        return row("A2", case, entry.title, "B", series, floor=floor, bar=own)

    whole, added = Series([float(sizes[turns])]), Series([float(sizes[turns] - empty)])
    return [
        msgspec.structs.replace(
            line(f"{said}, whole store", whole, text, bars.DISK),
            note=f"{empty:,} B of it when it was empty",
        ),
        line(f"{said}, what they added", added, text, bars.DISK),
        line(f"bytes per turn around turn {at[2]}", first, None, None),
        line(
            f"bytes per turn around turn {turns}",
            then,
            (f"around turn {at[2]}", first),
            bars.DISK_FLAT,
        ),
    ]


def _grown(sizes: dict[int, int], start: int, end: int) -> float:
    """Bytes per turn; never none, since pages may have had room."""
    return max(sizes[end] - sizes[start], 1) / (end - start)
