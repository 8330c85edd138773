"""`python -m bench.postgres.moving SOURCE TARGET`: copy a store, in a process of its own.

Prints one line of JSON: the messages, how long it took with both stores read again and compared at
the end, and the resident memory on the way.
"""

from __future__ import annotations

import sys
import time

import msgspec

from bench.memory import resident_mb
from ledgerstone import Store


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    messages: int
    seconds: float
    way_mb: list[float]


def move(source: str, target: str) -> Moved:
    way_mb: list[float] = []

    def look(_phase: str, _done: int, _total: int) -> None:
        way_mb.append(resident_mb())

    with Store.open(source) as old, Store.open(target) as new:
        begun = time.monotonic()
        old.admin.copy_to(new, progress=look)
        seconds = time.monotonic() - begun
        sessions = [one.id for one in new.sessions.iter()]
        messages = sum(new.messages.count(session) for session in sessions)
    return Moved(messages=messages, seconds=seconds, way_mb=way_mb)


if __name__ == "__main__":
    print(msgspec.json.encode(move(sys.argv[1], sys.argv[2])).decode())
