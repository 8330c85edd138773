"""The workloads of the adapters: what is done, by whom, and what must come out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from bench.adapters.stand import AdapterStand
from bench.adapters.workloads import conversations, disk, events, graph, runner
from bench.measure import Row

Run = Callable[[AdapterStand, float], list[Row]]


class Workload(msgspec.Struct, frozen=True):
    """`share` is its part of the measuring time; what it builds and starts comes on top."""

    run: Run
    share: float
    title: str


WORKLOADS: Final = {
    "A1": Workload(graph.run, 0.4, "a turn of a LangGraph graph at 100 turns"),
    "A2": Workload(disk.run, 0.0, "bytes of 200 turns of a LangGraph graph"),
    "A3": Workload(runner.run, 0.12, "a turn of an OpenAI Agents Runner at 100 turns"),
    "A4": Workload(events.run, 0.2, "ADK: a turn's events, a session, lists of sessions"),
    "A5": Workload(conversations.run, 0.1, "Pydantic AI: save and load a conversation"),
}
