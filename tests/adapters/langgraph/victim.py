"""A process that talks to a graph until it is killed, and goes on where the last one stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import END, START, StateGraph

from ledgerstone import Store
from ledgerstone.adapters.langgraph import LedgerSaver
from ledgerstone.errors import ExecutionUnresolved
from ledgerstone.testing.faults.processes import Say
from tests.adapters.langgraph.graphs import State, thread

TURNS_MAX = 10_000
SESSION = "t"


def ran(journal: Path, word: str) -> None:
    """One line that a kill cannot take back."""
    with journal.open("a") as file:
        file.write(f"{word}\n")
        file.flush()
        os.fsync(file.fileno())


def pay(store: Store, journal: Path, call: str) -> str:
    """A tool with an effect: its intent is durable before, so that a doubtful run is seen.

    It gives no id of its own: the same id again would be the same start again, by one who lost
    the answer, and not another run of the call.
    """
    try:
        found = store.executions.start(SESSION, call_id=call, tool="pay", arguments={"call": call})
    except ExecutionUnresolved as error:
        ran(journal, f"doubt {call}")
        found = store.executions.retry(error.execution)
    if found.result is None:
        ran(journal, f"paid {call}")
        store.executions.finish(found.id, result=f"paid {call}")
    return f"paid {call}"


def paying(store: Store, journal: Path) -> Any:
    """Each turn: the model asks for the tool, the tool runs, the model answers."""
    # With durability "async" the first tool may run before the first checkpoint is stored.
    store.sessions.ensure(SESSION)

    def agent(state: State) -> dict[str, Any]:
        messages = state["messages"]
        n = sum(isinstance(one, HumanMessage) for one in messages) - 1
        if isinstance(messages[-1], ToolMessage):
            return {"messages": [AIMessage(f"answer {n}", id=f"a{n}")]}
        call = {"name": "pay", "args": {"n": n}, "id": f"call-{n}"}
        return {"messages": [AIMessage("", tool_calls=[call], id=f"q{n}")]}

    def tools(state: State) -> dict[str, Any]:
        last: Any = state["messages"][-1]
        call = str(last.tool_calls[0]["id"])
        result = pay(store, journal, call)
        return {"messages": [ToolMessage(result, tool_call_id=call, id=f"t-{call}")]}

    builder = StateGraph(State)
    builder.add_node("agent", agent)
    builder.add_node("tools", tools)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges(
        "agent", lambda state: "tools" if state["messages"][-1].tool_calls else END
    )
    builder.add_edge("tools", "agent")
    return builder.compile(checkpointer=LedgerSaver(store))


def turn(graph: Any, durability: Any) -> str:
    """The next turn, or the rest of one that was not done; answers what the model said."""
    state = graph.get_state(thread(SESSION))
    n = sum(isinstance(one, HumanMessage) for one in state.values.get("messages", []))
    # Tasks are left when a turn is not done, also when all of them have written: then `next` is
    # empty already, and only the checkpoint after them is missing.
    said = {"messages": [HumanMessage(f"turn {n}", id=f"h{n}")]}
    found = graph.invoke(None if state.tasks else said, thread(SESSION), durability=durability)
    return str(found["messages"][-1].text)


def turns(graph: Any, count: int, durability: Any) -> None:
    """So many turns."""
    for _ in range(count):
        turn(graph, durability)


def talk(say: Say, url: str, journal: Path, durability: Any) -> None:
    """Turn after turn, each said when it is done."""
    with Store.open(url) as store:
        graph = paying(store, journal)
        for _ in range(TURNS_MAX):
            say(turn(graph, durability).encode())
