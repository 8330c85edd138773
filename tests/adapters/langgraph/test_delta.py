"""Delta channels, which are rebuilt from writes; and what pruning and deleting leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from ledgerstone import Store
from ledgerstone.adapters.langgraph import LedgerSaver
from ledgerstone.errors import InvalidValue
from tests.adapters.langgraph.graphs import chat, programmable, thread

EVERY = 3


def _fold(state: list[Any], writes: Sequence[Any]) -> list[Any]:
    found: Any = list(state or [])
    for one in writes:
        found = add_messages(found, one)
    return list(found)


def _joined(state: list[int], writes: Sequence[list[int]]) -> list[int]:
    return [*(state or []), *(one for write in writes for one in write)]


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_fold, snapshot_frequency=EVERY)]
    seen: Annotated[list[int], DeltaChannel(_joined, snapshot_frequency=EVERY)]


def graph_of(saver: Any) -> Any:
    def bot(state: Delta) -> dict[str, Any]:
        n = len(state["messages"])
        return {"messages": [AIMessage(f"answer {n}", id=f"a{n}")], "seen": [n]}

    builder = StateGraph(Delta)
    builder.add_node("bot", bot)
    builder.add_edge(START, "bot")
    builder.add_edge("bot", END)
    return builder.compile(checkpointer=saver)


def _talk(graph: Any, turns: int, start: int = 0) -> None:
    for n in range(start, start + turns):
        graph.invoke({"messages": [HumanMessage(f"turn {n}", id=f"h{n}")]}, thread("t"))


def _states(graph: Any) -> list[Any]:
    return [one.values for one in graph.get_state_history(thread("t"))]


def test_delta_channels_are_rebuilt(adapter_store: Store) -> None:
    saver, stock = LedgerSaver(adapter_store), InMemorySaver()
    graphs = (graph_of(saver), graph_of(stock))
    for start in (0, 4):
        for graph in graphs:
            _talk(graph, 4, start)
        assert _states(graphs[0]) == _states(graphs[1])
        graphs = (graph_of(LedgerSaver(adapter_store)), graphs[1])
    assert _states(graphs[0]) == _states(graphs[1])
    names = [one.id for one in adapter_store.nodes.iter("t", kind="message")]
    kept = [one.text for one in adapter_store.messages.history("t")]
    state = [one.text for one in graphs[0].get_state(thread("t")).values["messages"]]
    assert kept == state[: len(kept)]
    assert len(names) == len(kept), "a snapshot goes on where the last one ended"
    found = saver.get_delta_channel_history(config=thread("t"), channels=["messages", "none"])
    assert "seed" in found["messages"]
    assert found["none"] == {"writes": []}
    assert saver.get_delta_channel_history(config=thread("u"), channels=["x"]) == {
        "x": {"writes": []}
    }


def test_pruning_keeps_what_delta_channels_are_rebuilt_from(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    graph = graph_of(saver)
    _talk(graph, 5)
    before = graph.get_state(thread("t")).values
    count = len(list(saver.list(thread("t"))))
    saver.prune(["t"])
    assert 1 <= len(list(saver.list(thread("t")))) < count
    assert graph.get_state(thread("t")).values == before
    assert graph_of(LedgerSaver(adapter_store)).get_state(thread("t")).values == before
    _talk(graph, 2, 5)
    assert len(graph.get_state(thread("t")).values["messages"]) == 14


def test_pruning_keeps_the_conversation(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    graph = programmable(saver)
    for n in range(3):
        graph.invoke({"messages": [HumanMessage(f"say {n}", id=f"h{n}")]}, thread("t"))
    history = list(graph.get_state_history(thread("t")))
    old = next(one for one in history if len(one.values.get("messages", ())) == 2)
    graph.invoke({"messages": [HumanMessage("another", id="x")]}, old.config)
    texts = [one.text for one in adapter_store.messages.history("t")]
    total = len(list(adapter_store.nodes.iter("t", kind="message")))
    saver.prune(["t"])
    assert len(list(saver.list(thread("t")))) == 1
    assert [one.text for one in adapter_store.messages.history("t")] == texts
    left = len(list(adapter_store.nodes.iter("t", kind="message")))
    assert left == len(texts) < total, "what only a pruned line showed is gone"
    graph.invoke({"messages": [HumanMessage("go on", id="y")]}, thread("t"))
    assert len(graph.get_state(thread("t")).values["messages"]) == 6
    assert adapter_store.admin.verify().defects == []
    saver.prune(["t"], strategy="delete")
    assert saver.get_tuple(thread("t")) is None
    with pytest.raises(InvalidValue, match="strategy"):
        saver.prune(["t"], strategy="some")


@pytest.mark.parametrize("run", ["run-1", "odd\trun"])
def test_the_checkpoints_of_a_run_are_deleted_in_the_middle(adapter_store: Store, run: str) -> None:
    saver = LedgerSaver(adapter_store)
    graph = chat(saver, size=10)
    for n in range(3):
        config = {**thread("t"), "metadata": {"run_id": run if n == 1 else f"run-other-{n}"}}
        graph.invoke({"messages": [HumanMessage(f"{n}", id=f"h{n}")]}, config)
    before = graph.get_state(thread("t")).values
    saver.delete_for_runs([run, "unknown"])
    runs = [one.metadata["run_id"] for one in saver.list(thread("t"))]
    assert set(runs) == {"run-other-0", "run-other-2"}
    for one in (graph, chat(LedgerSaver(adapter_store))):
        assert one.get_state(thread("t")).values == before
    graph.invoke({"messages": [HumanMessage("3", id="h3")]}, thread("t"))
    assert len(graph.get_state(thread("t")).values["messages"]) == 8
    saver.delete_for_runs(["run-other-0", "run-other-2"])
    assert len(list(saver.list(thread("t")))) == 3
    assert adapter_store.admin.verify().defects == []
