"""Real compiled graphs: tools, questions, time travel, graphs inside graphs, streams."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Command

from ledgerstone import Store
from ledgerstone.adapters.langgraph import LedgerSaver
from tests.adapters.conftest import opened
from tests.adapters.langgraph.graphs import programmable, scripted, thread, tool_loop

DURABILITIES = ("sync", "async", "exit")


def say(text: str, id: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=id)]}


def said(graph: Any, name: str) -> list[str]:
    return [one.text for one in graph.get_state(thread(name)).values["messages"]]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_tool_loop_is_a_conversation_of_the_store(adapter_store: Store, durability: Any) -> None:
    graph = tool_loop(LedgerSaver(adapter_store), scripted(2))
    for n in range(2):
        found = graph.invoke(say(f"weather {n}?", f"h{n}"), thread("t"), durability=durability)
    kept = adapter_store.messages.history("t")
    assert [one.role for one in kept] == ["user", "assistant", "tool", "assistant"] * 2
    assert [one.text for one in kept if one.role != "tool"] == [
        one.text for one in found["messages"] if one.type != "tool"
    ]
    assert kept[1].tool_calls[0].name == "weather"
    assert kept[1].tool_calls[0].id == kept[2].body.tool_call_id == "call-0"
    assert adapter_store.messages.last("t", 1)[0].text == found["messages"][-1].text
    again = tool_loop(LedgerSaver(adapter_store), scripted(0))
    assert again.get_state(thread("t")).values["messages"] == found["messages"]
    assert adapter_store.admin.verify().defects == []


def test_the_same_loop_async(store_url: str, colour: str) -> None:
    async def go() -> None:
        async with opened(store_url, colour) as store:
            graph = tool_loop(LedgerSaver(store), scripted(2))
            for n in range(2):
                await graph.ainvoke(say(f"weather {n}?", f"h{n}"), thread("t"))
            again = tool_loop(LedgerSaver(store), scripted(0))
            found = (await again.aget_state(thread("t"))).values["messages"]
            assert [one.type for one in found] == ["human", "ai", "tool", "ai"] * 2
            history = [one async for one in again.aget_state_history(thread("t"))]
            assert len(history) == 10

    asyncio.run(go())


def test_a_question_waits_for_its_answer(adapter_store: Store) -> None:
    graph = programmable(LedgerSaver(adapter_store))
    graph.invoke(say("ask me", "h0"), thread("t"))
    # Another process, the next day.
    graph.checkpointer = LedgerSaver(adapter_store)
    state = graph.get_state(thread("t"))
    assert state.next == ("ask",)
    assert state.tasks[0].interrupts[0].value == {"question": "go on?", "have": 2}
    graph.checkpointer = LedgerSaver(adapter_store)
    graph.invoke(Command(resume="yes"), thread("t"))
    assert said(graph, "t") == ["ask me", "I have 1 messages", "you said yes"]
    assert said(graph, "t")[-1] == "you said yes"
    assert adapter_store.messages.last("t", 1)[0].text == "you said yes"


def test_a_question_inside_a_graph_inside(adapter_store: Store) -> None:
    graph = programmable(LedgerSaver(adapter_store))
    graph.invoke(say("both of it", "h0"), thread("t"))
    graph.checkpointer = LedgerSaver(adapter_store)
    inside = graph.get_state(thread("t"), subgraphs=True).tasks[0].state
    assert inside.next == ("wait",)
    assert inside.values["messages"][-1].text == "I have 2 messages"
    graph.invoke(Command(resume="fine"), thread("t"))
    assert said(graph, "t")[-1] == "you said fine"
    assert [one.text for one in adapter_store.messages.history("t")] == said(graph, "t")


def test_time_travel_makes_another_line_and_keeps_the_first(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    graph = programmable(saver)
    for n in range(3):
        graph.invoke(say(f"say {n}", f"h{n}"), thread("t"))
    first = said(graph, "t")
    history = list(graph.get_state_history(thread("t")))
    old = next(one for one in history if len(one.values.get("messages", ())) == 2)
    graph.invoke(say("another way", "other"), old.config)
    other = said(graph, "t")
    assert other[:2] == first[:2]
    assert other[2] == "another way"
    assert [one.text for one in adapter_store.messages.history("t")] == other
    newest = history[0].config
    assert [one.text for one in graph.get_state(newest).values["messages"]] == first
    edited = graph.update_state(newest, {"messages": [AIMessage("by hand", id="hand")]})
    assert [one.text for one in graph.get_state(edited).values["messages"]] == [*first, "by hand"]


def test_streams_show_every_step(adapter_store: Store) -> None:
    answers = iter([AIMessage("it rains a lot", id="a")])
    graph = tool_loop(LedgerSaver(adapter_store), answers)
    seen = []
    for kind, chunk in graph.stream(
        say("weather?", "h"), thread("t"), stream_mode=["updates", "messages", "checkpoints"]
    ):
        seen.append(kind)
        if kind == "checkpoints":
            assert chunk["config"]["configurable"]["thread_id"] == "t"
    assert set(seen) == {"updates", "messages", "checkpoints"}
    assert seen.count("messages") > 3, "token by token"
    assert [one.text for one in adapter_store.messages.history("t")] == [
        "weather?",
        "it rains a lot",
    ]


def test_trimmed_and_summarised_lists_are_what_the_store_shows(adapter_store: Store) -> None:
    graph = programmable(LedgerSaver(adapter_store))
    for n, word in enumerate(("say", "say", "trim", "remove", "say", "clear", "say", "edit")):
        graph.invoke(say(f"{word} {n}", f"h{n}"), thread("t"))
        assert [one.text for one in adapter_store.messages.history("t")] == said(graph, "t"), word
    graph.invoke(say("empty 9", "h9"), thread("t"))
    assert graph.get_state(thread("t")).values.get("messages", []) == []
    assert adapter_store.messages.history("t") == []
    graph.invoke(say("say 10", "h10"), thread("t"))
    assert [one.text for one in adapter_store.messages.history("t")] == said(graph, "t")
    before = [one.values.get("messages") for one in graph.get_state_history(thread("t"))]
    cold = programmable(LedgerSaver(adapter_store))
    assert [one.values.get("messages") for one in cold.get_state_history(thread("t"))] == before


@pytest.mark.parametrize("check", ["fingerprint", "digest"])
def test_a_message_that_was_changed_in_place_is_stored_changed(
    adapter_store: Store, check: str
) -> None:
    graph = programmable(LedgerSaver(adapter_store, check=check))
    graph.invoke(say("say 0", "h0"), thread("t"), durability="sync")
    graph.invoke(say("mutate it", "h1"), thread("t"), durability="sync")
    cold = programmable(LedgerSaver(adapter_store))
    found = cold.get_state(thread("t")).values["messages"]
    assert found[0].additional_kwargs == {"seen": 3}
    assert found[1].text == "mutated 3"


def test_what_is_read_may_be_changed_by_whoever_read_it(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    graph = tool_loop(saver, scripted(1))
    graph.invoke(say("weather?", "h"), thread("t"))
    first = saver.get_tuple(thread("t"))
    assert first is not None
    messages = first.checkpoint["channel_values"]["messages"]
    messages[1].tool_calls[0]["args"]["city"] = "elsewhere"
    messages[0].additional_kwargs["x"] = 1
    messages.pop()
    second = saver.get_tuple(thread("t"))
    assert second is not None
    fresh = second.checkpoint["channel_values"]["messages"]
    assert len(fresh) == 4
    assert fresh[1].tool_calls[0]["args"] == {"city": "city 0"}
    assert fresh[0].additional_kwargs == {}
