"""`python -m bench.memory PATH MESSAGES`: append that many, stream them back, watch the memory.

Runs in a process of its own and prints one line of JSON: the resident size at every tenth of the
way, in both directions. Commits of 100 messages at durability "process": what is looked at here is
memory, not the disk. Whichever way takes too long is broken off, and the report says where.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from bench.big import MESSAGES_PER_TURN, portions, say
from bench.rss import TENTHS, Memory
from bench.work import Work
from ledgerstone import Store

SESSION: Final = "stream"
KIB_PER_MB: Final = 1024
WAY_S: Final = 300.0


def resident_mb() -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / KIB_PER_MB
    raise RuntimeError("this system does not tell VmRSS")


def watch(path: str, messages: int, seed: int) -> Memory:
    tenth = messages // TENTHS
    with Store.open(path, durability="process") as store:
        store.sessions.create(id=SESSION)
        start_mb, begun = resident_mb(), time.monotonic()
        appended, appending_mb = append(store, messages, seed)
        between = time.monotonic()
        streamed, streaming_mb = stream(store, tenth)
        return Memory(
            tenth=tenth,
            appended=appended,
            streamed=streamed,
            start_mb=start_mb,
            appending_mb=appending_mb,
            streaming_mb=streaming_mb,
            append_s=between - begun,
            stream_s=time.monotonic() - between,
        )


def append(store: Store, messages: int, seed: int) -> tuple[int, list[float]]:
    turns, tenth, end = Work(seed).turns, messages // TENTHS, time.monotonic() + WAY_S
    sizes_mb: list[float] = []
    done = 0
    for portion in portions(turns, messages // MESSAGES_PER_TURN):
        draft = store.turns.begin(SESSION)
        for turn in portion:
            say(draft, turn)
        draft.commit()
        done += len(portion) * MESSAGES_PER_TURN
        if done >= tenth * (len(sizes_mb) + 1):
            sizes_mb.append(resident_mb())
            if time.monotonic() > end:
                break
    return done, sizes_mb


def stream(store: Store, tenth: int) -> tuple[int, list[float]]:
    end = time.monotonic() + WAY_S
    sizes_mb: list[float] = []
    seen = 0
    for seen, _ in enumerate(store.messages.iter(SESSION), start=1):
        if seen % tenth == 0:
            sizes_mb.append(resident_mb())
            if time.monotonic() > end:
                break
    return seen, sizes_mb


if __name__ == "__main__":
    result = watch(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print(msgspec.json.encode(result).decode())
