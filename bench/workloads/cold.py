"""W7: a fresh interpreter imports the package, opens a store and reads the last 50 messages."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from bench import big, entries
from bench.contender import Entry
from bench.measure import Bar, Row, Series, row
from bench.remote import ROOT, ContenderFailed, environment
from bench.rounds import Rounds
from bench.stand import READ, SHALLOW_FROM, Stand

SCRIPTS: Final = {
    "floor": "bare.py",
    "ours": "store.py",
    "openai": "openai_plain.py",
    "openai-advanced": "openai_advanced.py",
    "langgraph-exit": "langgraph_saver.py",
    "agno": "agno_db.py",
    "adk": "adk_service.py",
}
LAST_COUNT: Final = 50
START_S: Final = 60.0
PEERS_SHARE: Final = 0.6
BAR: Final = Bar("at most", 2.5)
FASTEST_PEER: Final = Bar("at most", 0.25)


class Start(msgspec.Struct, frozen=True):
    """Who is started, with which arguments."""

    entry: Entry
    title: str
    path: Path
    session: str
    note: str


def run(stand: Stand, seconds: float) -> list[Row]:
    starts = prepared(stand)
    totals = {start.entry.key: Series() for start in starts}
    parts: dict[str, list[tuple[float, float]]] = {start.entry.key: [] for start in starts}
    peers = len(starts) - 2 if len(starts) > 2 else 1
    rounds = Rounds(
        seconds,
        least=stand.sizes.cold_rounds,
        peer_least=stand.sizes.peer_rounds,
        allowance_s=seconds * PEERS_SHARE / peers,
    )
    failed: set[str] = set()
    for start in starts:
        if start.entry.kind != "peer":
            with suppress(ContenderFailed):  # It is told below.
                once(stand, start)  # The first one writes the byte code.
    for number in rounds:
        for start in rounds.order(starts):
            key = start.entry.key
            if key in failed or (start.entry.kind == "peer" and rounds.sits_out(key)):
                continue
            begun = time.monotonic()
            try:
                imported, read = once(stand, start)
            except ContenderFailed as error:
                failed.add(key)
                stand.drop(start.entry, error)
                continue
            rounds.spend(key, time.monotonic() - begun)
            totals[key].add([imported + read], number)
            parts[key].append((imported, read))
    done = [start for start in starts if start.entry.key not in failed]
    return rows(done, totals, parts)


def prepared(stand: Stand) -> list[Start]:
    """Ours and the floor read a big store; the peers' are smaller, which is in their favour."""
    held = f"{stand.sizes.big_messages:,} messages"
    starts = [
        Start(entries.FLOOR, "bare apsw + msgspec", big.build_floor(stand), str(big.BIG), held)
    ]
    if stand.has_ours:
        from bench.ours import session_id

        path = big.build_ours(stand)
        starts.append(Start(entries.OURS, entries.OURS.title, path, session_id(big.BIG), held))
    if stand.peers:
        stand.build()
    for entry in stand.peers_there:
        if entry.key in SCRIPTS:
            number = READ if stand.has_deep(entry) else SHALLOW_FROM
            count = sum(depth for _, depth in stand.histories(entry)) * entry.per_turn
            note = f"{count:,} messages"
            title = entry.title.removesuffix(", exit")
            starts.append(Start(entry, title, stand.path(entry.key), f"bench-{number:08d}", note))
    return starts


def once(stand: Stand, start: Start) -> tuple[float, float]:
    """The import, then open and read, in milliseconds as the fresh interpreter saw them."""
    script = ROOT / "bench" / "cold" / SCRIPTS[start.entry.key]
    command = [sys.executable, "-P", str(script), str(start.path), start.session]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=START_S, check=False
    )
    if done.returncode != 0:
        raise ContenderFailed(f"{start.title}: {done.stderr.strip()[-200:]}")
    imported, read, count = done.stdout.split()[-3:]
    wanted = min(LAST_COUNT, stand.sizes.big_messages)
    if int(count) != wanted:
        raise ContenderFailed(f"{start.title} read {count}, not {wanted}")
    return float(imported), float(read)


def rows(
    done: list[Start], totals: dict[str, Series], parts: dict[str, list[tuple[float, float]]]
) -> list[Row]:
    found = []
    case = f"import, open, read the last {LAST_COUNT}"
    for start in done:
        key = start.entry.key
        imported, read = (statistics.median(times) for times in zip(*parts[key], strict=True))
        found.append(
            row(
                "W7",
                case,
                start.title,
                "ms",
                totals[key],
                floor=(done[0].title, totals[done[0].entry.key]),
                bar=BAR if start.entry.kind == "ours" else None,
                note=f"import {imported:.0f} + open and read {read:.1f} ms; {start.note}",
            )
        )
    peers = [start for start in done if start.entry.kind == "peer"]
    ours = [start for start in done if start.entry.kind == "ours"]
    if peers and ours:
        best = min(peers, key=lambda one: statistics.median(totals[one.entry.key].samples))
        found.append(
            row(
                "W7",
                f"{case}, against the fastest peer",
                ours[0].title,
                "ms",
                totals[ours[0].entry.key],
                floor=(best.title, totals[best.entry.key]),
                bar=FASTEST_PEER,
                note="0.25x is four times as fast",
            )
        )
    return found
