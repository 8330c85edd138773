"""The workloads on PostgreSQL: what is done, by whom, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from bench.measure import Row
from bench.postgres.stand import PostgresStand
from bench.postgres.workloads import (
    busy,
    copying,
    disk,
    link,
    lists,
    lone,
    nearest,
    processes,
    queue,
    resume,
    stats,
    taking,
)

Run = Callable[[PostgresStand, float], list[Row]]


class Workload(msgspec.Struct, frozen=True):
    """`share` is its part of the measuring time; what it builds and starts comes on top."""

    run: Run
    share: float
    title: str


WORKLOADS: Final = {
    "P1": Workload(lone.run, 0.2, "lone commit to a session of 0, 100 and 1000 turns"),
    "P2": Workload(resume.run, 0.08, "load 1000 turns, load the last 50 messages"),
    "P3": Workload(busy.run, 0.12, "64 sessions at once from one process"),
    "P4": Workload(processes.run, 0.1, "4 processes with 8 sessions each on one database"),
    "P5": Workload(queue.run, 0.1, "enqueue, claim, complete"),
    "P6": Workload(disk.run, 0.0, "bytes per turn"),
    "P8": Workload(lists.run, 0.02, "the newest 50 sessions of a user, of 1,000 and 1,000,000"),
    "P9": Workload(stats.run, 0.02, "counts and usage of a session"),
    "P10": Workload(taking.run, 0.03, "take a session that has work, of 100 and 100,000"),
    "P11": Workload(nearest.run, 0.03, "the nearest of 50,000 vectors by an index"),
    "P13": Workload(link.run, 0.02, "lone commit over a link with 2 ms round trip"),
    "P14": Workload(copying.run, 0.0, "a store copied to PostgreSQL and back"),
}
