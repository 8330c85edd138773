"""Random programs of graph operations: every state is what LangGraph's own saver would show."""

from __future__ import annotations

import random
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from ledgerstone import Store
from ledgerstone.adapters.langgraph import LedgerSaver
from tests.adapters.langgraph.graphs import programmable, thread

WORDS = (
    "say",
    "remove",
    "clear",
    "trim",
    "empty",
    "edit",
    "mutate",
    "call",
    "facts",
    "ask",
    "inner",
    "both",
    "fan",
)
DURABILITIES = ("sync", "async", "exit")
STEPS = 14


def history(graph: Any, config: Any) -> list[Any]:
    """Everything of a thread that does not depend on random names."""
    snapshots = list(graph.get_state_history(config))
    places = {one.config["configurable"]["checkpoint_id"]: n for n, one in enumerate(snapshots)}
    found = []
    for one in snapshots:
        parent = (one.parent_config or {}).get("configurable", {}).get("checkpoint_id")
        found.append(
            {
                "values": one.values,
                "next": one.next,
                "source": one.metadata["source"],
                "step": one.metadata["step"],
                "parent": places.get(parent),
                "tasks": [
                    (task.name, task.path, task.error, [i.value for i in task.interrupts])
                    for task in one.tasks
                ],
                "results": [task.result for task in one.tasks],
            }
        )
    return found


def shown(store: Store, saver: LedgerSaver) -> tuple[list[str], list[str]]:
    """The roles of what the session shows, and of what the newest checkpoint holds."""
    found = saver.get_tuple(thread("t"))
    held = [] if found is None else found.checkpoint["channel_values"].get("messages", [])
    roles = {"human": "user", "ai": "assistant"}
    return (
        [f"{one.role}: {one.text}" for one in store.messages.history("t") if one.role != "tool"],
        [f"{roles.get(one.type, one.type)}: {one.text}" for one in held if one.type != "tool"],
    )


def writes(saver: Any, config: Any) -> list[Any]:
    """The pending writes of every checkpoint of every namespace, in order."""
    return [
        [(channel, value) for _, channel, value in one.pending_writes if channel[:2] != "__"]
        for one in sorted(saver.list(config), key=lambda one: one.checkpoint["id"])
    ]


class Pair:
    """The same graph on two savers."""

    def __init__(self, store: Store, draw: random.Random) -> None:
        self.ours, self.stock = LedgerSaver(store), InMemorySaver()
        self.graphs = (programmable(self.ours), programmable(self.stock))
        self.store = store
        self.draw = draw
        self.mutates = False

    def step(self, n: int) -> None:
        """One random operation on both."""
        kinds = ["invoke"] * 6 + ["update", "resume", "resume", "again", "fork", "rewind"]
        kind = self.draw.choice(kinds)
        word = f"{self.draw.choice(WORDS)} {n}"
        durability = self.draw.choice(DURABILITIES)
        self.mutates |= word.startswith("mutate")
        if self.mutates:
            # A message that changes while it is saved in the background: no saver can say when.
            durability = "sync"
        back = self.draw.random()
        cold = self.draw.random() < 0.3
        outcomes = []
        for number, graph in enumerate(self.graphs):
            if cold and number == 0:
                self.ours = graph.checkpointer = LedgerSaver(self.store)
            try:
                self._do(graph, kind, word, n, durability, back)
                outcomes.append("fine")
            except Exception as error:
                outcomes.append(f"{type(error).__name__}: {error}")
        assert outcomes[0] == outcomes[1]

    def _do(self, graph: Any, kind: str, word: str, n: int, durability: str, back: float) -> None:
        config = thread("t")
        message = HumanMessage(word, id=f"h{n}")
        if kind == "update":
            graph.update_state(config, {"messages": [message], "notes": ["updated"]}, as_node="act")
        elif kind == "resume":
            graph.invoke(Command(resume=f"yes {n}"), config, durability=durability)
        elif kind == "again":
            graph.invoke(None, config, durability=durability)
        elif kind in ("fork", "rewind"):
            snapshots = list(graph.get_state_history(config))
            if not snapshots:
                return
            old = snapshots[int(back * len(snapshots))].config
            if kind == "fork":
                old = graph.update_state(old, {"notes": [f"fork {n}"]}, as_node="act")
            graph.invoke({"messages": [message]}, old, durability=durability)
        else:
            graph.invoke({"messages": [message]}, config, durability=durability)


@pytest.mark.parametrize("round_", range(4))
def test_states_are_those_of_the_stock_saver(adapter_store: Store, seed: int, round_: int) -> None:
    draw = random.Random(seed * 1000 + round_)
    pair = Pair(adapter_store, draw)
    for n in range(STEPS):
        pair.step(n)
        ours, stock = (history(graph, thread("t")) for graph in pair.graphs)
        assert ours == stock, f"after step {n}"
        conversation, held = shown(adapter_store, pair.ours)
        assert conversation == held, f"after step {n}"
    assert writes(pair.ours, thread("t")) == writes(pair.stock, thread("t"))
    cold = programmable(LedgerSaver(adapter_store))
    assert history(cold, thread("t")) == history(pair.graphs[1], thread("t"))
    assert adapter_store.admin.verify().defects == []
