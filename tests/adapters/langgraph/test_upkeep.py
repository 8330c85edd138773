"""Pruning and deleting: what stays is whole; and checkpoints that are odd or old."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import TASKS
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from ledgerstone import Store, user
from ledgerstone.adapters.langgraph import LedgerSaver
from ledgerstone.errors import Corrupt, InvalidValue
from tests.adapters.langgraph.graphs import chat, thread
from tests.adapters.langgraph.puts import checkpoint, put, values


def talk(saver: LedgerSaver, turns: int, name: str = "t") -> Any:
    graph = chat(saver, size=10)
    for n in range(turns):
        config = {**thread(name), "metadata": {"run_id": f"run-{n}"}}
        graph.invoke({"messages": [HumanMessage(f"{n}")]}, config)
    return graph


@pytest.mark.parametrize("given", ["12", b"12", 12, None])
def test_a_text_is_no_list_of_ids(adapter_store: Store, given: Any) -> None:
    saver = LedgerSaver(adapter_store)
    for name in ("1", "2", "12"):
        put(saver, thread(name), {"x": 1}, run_id=name)
    with pytest.raises(InvalidValue, match="thread_ids") as caught:
        saver.prune(given, strategy="delete")
    assert isinstance(caught.value, ValueError)
    with pytest.raises(InvalidValue, match="run_ids") as caught:
        saver.delete_for_runs(given)
    assert isinstance(caught.value, ValueError)
    assert all(saver.get_tuple(thread(name)) for name in ("1", "2", "12"))
    saver.prune(("12",), strategy="delete")
    saver.delete_for_runs(one for one in ("1",))  # type: ignore[arg-type]
    assert [name for name in ("1", "2", "12") if saver.get_tuple(thread(name))] == ["2"]


def test_an_unknown_strategy_is_a_value_error(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    put(saver, thread("t"), {"x": 1})
    for threads in (["t"], []):
        with pytest.raises(ValueError, match="keep_latest, delete"):
            saver.prune(threads, strategy="keep_none")
    assert values(saver, thread("t")) == {"x": 1}


def dangling(saver: LedgerSaver) -> list[Any]:
    """Parents that are named and are not there."""
    parents = [one.parent_config for one in saver.list(None) if one.parent_config]
    return [one for one in parents if saver.get_tuple(one) is None]


def test_no_parent_is_named_that_was_pruned(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    graph = talk(saver, 3)
    before = graph.get_state(thread("t"))
    saver.prune(["t"])
    for one in (saver, LedgerSaver(adapter_store)):
        [found] = one.list(thread("t"))
        assert found.parent_config is None
        assert dangling(one) == []
        assert chat(one).get_state(thread("t")).values == before.values
    saver.prune(["t"])
    graph.invoke({"messages": [HumanMessage("on")]}, thread("t"))
    assert dangling(saver) == []
    history = list(graph.get_state_history(thread("t")))
    assert history[-1].parent_config is None
    assert all(one.parent_config for one in history[:-1])
    assert adapter_store.admin.verify().ok


@pytest.mark.parametrize("run", [0, 1, 2])
def test_no_parent_is_named_that_went_with_its_run(adapter_store: Store, run: int) -> None:
    saver = LedgerSaver(adapter_store)
    talk(saver, 3)
    saver.delete_for_runs([f"run-{run}"])
    for one in (saver, LedgerSaver(adapter_store)):
        assert dangling(one) == []
        assert len([found for found in one.list(thread("t")) if not found.parent_config]) <= 2


def test_a_pruned_thread_takes_up_what_others_say(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    graph = talk(saver, 2)
    saver.prune(["t"])
    adapter_store.messages.append("t", user("from elsewhere"))
    for one in (graph, chat(LedgerSaver(adapter_store), size=10)):
        texts = [m.text for m in one.get_state(thread("t")).values["messages"]]
        assert texts[-1] == "from elsewhere"
        assert len(texts) == 5
    graph.invoke({"messages": [HumanMessage("on")]}, thread("t"))
    assert len(adapter_store.messages.history("t")) == 7


def test_parents_in_a_circle_end(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    first = put(saver, thread("t"), {"x": 1})
    second = put(saver, first, {"x": 2})
    again = checkpoint({"x": 3})
    again["id"] = first["configurable"]["checkpoint_id"]
    saver.put(second, again, {"source": "loop"}, {"x": 1})
    found = saver.get_tuple(first)
    assert found is not None
    assert found.parent_config == second
    for config in (first, second):
        with pytest.raises(Corrupt, match="cycle"):
            saver.get_delta_channel_history(config=config, channels=["never written"])
    itself = checkpoint({"x": 1})
    own: Any = thread("u", checkpoint_ns="", checkpoint_id=itself["id"])
    saver.put(own, itself, {"source": "loop"}, {"x": 1})
    with pytest.raises(Corrupt, match="cycle"):
        saver.get_delta_channel_history(config=own, channels=["never written"])


def test_ancestors_are_those_of_the_last_put(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    wrong, right = put(saver, thread("t"), {"x": 1}), put(saver, thread("t"), {"x": 2})
    middle = checkpoint({"y": 1})
    for parent in (wrong, right):
        saver.put_writes(parent, [("z", parent is right)], "task")
        moved = saver.put(parent, middle, {"source": "loop"}, {"y": 1})
    last = put(saver, moved, {"y": 2})
    found = saver.get_delta_channel_history(config=last, channels=["z"])
    assert [value for _, _, value in found["z"]["writes"]] == [True]


class Sent(TypedDict):
    done: Annotated[list[int], operator.add]


def fan_out(saver: Any) -> Any:
    builder = StateGraph(Sent)
    builder.add_node("work", lambda n: {"done": [n]})
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in (1, 2, 3)])
    return builder.compile(checkpointer=saver, interrupt_before=["work"])


def test_tasks_to_start_of_checkpoints_before_form_4(adapter_store: Store) -> None:
    stock = InMemorySaver()
    fan_out(stock).invoke({"done": []}, thread("t"))
    new, *_, old = stock.list(thread("t"))
    sends = new.checkpoint["channel_values"][TASKS]
    assert len(sends) == 3
    saver = LedgerSaver(adapter_store)
    version = max(new.checkpoint["channel_versions"].values())
    parent = saver.put(
        thread("t", checkpoint_ns=""), old.checkpoint, old.metadata, dict.fromkeys(("a",), version)
    )
    saver.put_writes(parent, [(TASKS, one) for one in sends], "task")
    made: Any = {**new.checkpoint, "v": 3}
    for part in ("channel_values", "channel_versions"):
        made[part] = {name: one for name, one in made[part].items() if name != TASKS}
    saver.put(parent, made, new.metadata, made["channel_versions"])
    for one in (saver, LedgerSaver(adapter_store)):
        found = one.get_tuple(thread("t"))
        listed = next(iter(one.list(thread("t"))))
        for seen in (found, listed):
            assert seen is not None
            assert seen.checkpoint["channel_values"][TASKS] == sends
            versions = seen.checkpoint["channel_versions"]
            assert versions[TASKS] == max(versions.values())
    done = [fan_out(each).invoke(None, thread("t"))["done"] for each in (stock, saver)]
    assert done == [[1, 2, 3], [1, 2, 3]]
