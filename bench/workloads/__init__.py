"""The workloads: what is done, by whom, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from bench.measure import Row
from bench.stand import Stand
from bench.workloads import (
    busy,
    cold,
    disk,
    lists,
    lone,
    nearest,
    pieces,
    processes,
    queue,
    resume,
    stats,
    streaming,
    taking,
)

Run = Callable[[Stand, float], list[Row]]


class Workload(msgspec.Struct, frozen=True):
    """`share` is its part of the measuring time; what it builds and starts comes on top."""

    run: Run
    share: float
    title: str


WORKLOADS: Final = {
    "W1": Workload(lone.run, 0.3, "lone commit to a session of 0, 100 and 1000 turns"),
    "W2": Workload(resume.run, 0.12, "load 1000 turns, load the last 50 messages"),
    "W3": Workload(busy.run, 0.16, "64 sessions at once from one process"),
    "W4": Workload(processes.run, 0.12, "4 processes with 8 sessions each on one file"),
    "W5": Workload(queue.run, 0.11, "enqueue, claim, complete"),
    "W6": Workload(disk.run, 0.0, "bytes on disk per turn"),
    "W7": Workload(cold.run, 0.1, "cold start: import, open, first read"),
    "W8": Workload(lists.run, 0.03, "the newest 50 sessions of a user, of 1,000 and 1,000,000"),
    "W9": Workload(stats.run, 0.03, "counts and usage of a session"),
    "W10": Workload(taking.run, 0.03, "take a session that has work, of 100 and 100,000"),
    "W11": Workload(nearest.run, 0.05, "the nearest of 50,000 vectors, by engine"),
    "W12": Workload(pieces.run, 0.0, "bytes through a store and through a file; attachments"),
    "RSS": Workload(streaming.run, 0.0, "memory while 1,000,000 messages pass"),
}
