"""P14: a whole store copied from SQLite to PostgreSQL, and back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

from bench.big import MESSAGES_PER_TURN
from bench.measure import Bar, Row
from bench.postgres import bars
from bench.postgres.place import url
from bench.postgres.stand import PostgresStand
from bench.remote import ContenderFailed, environment

SESSIONS: Final = 50
WITHIN_S: Final = 300.0
SETTLED: Final = 5
"""The memory after a fifth of the way is what the rest of it is compared with."""


def run(stand: PostgresStand, _seconds: float) -> list[Row]:
    if not stand.has_ours:
        return []
    stand.say(f"writing {stand.sizes.copied:,} messages to copy")
    source = stand.directory / "moving-source.db"
    count = write(source, stand)
    there, back = url(stand.path("moving")), str(stand.directory / "moving-back.db")
    again = str(stand.directory / "moving-again.db")
    return [
        moved(stand, "SQLite to SQLite", str(source), again, count, bars.COPY_FILES),
        moved(stand, "SQLite to PostgreSQL", str(source), there, count, bars.COPY),
        moved(stand, "PostgreSQL to SQLite", there, back, count, bars.COPY),
    ]


def write(path: Path, stand: PostgresStand) -> int:
    """Ordinary turns of several sessions, without waiting for the disk."""
    from bench.ours import Ours, session_id
    from ledgerstone import Store

    turns = stand.sizes.copied // MESSAGES_PER_TURN
    with Store.open(str(path), durability="process") as store:
        ours = Ours(store)
        sessions = range(1, min(SESSIONS, turns) + 1)
        for number in sessions:
            store.sessions.create(id=session_id(number))
        for place in range(turns):
            ours.commit(sessions[place % len(sessions)], stand.work.turn(place))
    return turns * MESSAGES_PER_TURN


def moved(stand: PostgresStand, way: str, source: str, target: str, count: int, bar: Bar) -> Row:
    from bench.postgres.moving import Moved

    stand.say(f"copying from {way}")
    command = [sys.executable, "-m", "bench.postgres.moving", source, target]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment(), timeout=WITHIN_S, check=False
    )
    if done.returncode != 0:
        raise ContenderFailed(f"copying from {way}: {done.stderr.strip()[-300:]}")
    found = msgspec.json.decode(done.stdout, type=Moved)
    if found.messages != count:
        raise ContenderFailed(f"copying from {way}: {found.messages} messages, not {count}")
    rate = found.messages / found.seconds
    settled = found.way_mb[len(found.way_mb) // SETTLED]
    return Row(
        workload="P14",
        case=f"copy {count:,} messages, {way}",
        contender="ours, blocking",
        unit="messages/s",
        median=rate,
        p10=rate,
        p90=rate,
        samples=1,
        bar=f"{bar.direction} {bar.limit:,.0f}",
        verdict=bar.judge(rate, rate),
        note=f"both read again and compared; {settled:.0f} MB after a fifth of the way, "
        f"at most {max(found.way_mb):.0f}",
    )
