"""Graphs for the tests: a tool loop, one that stops and asks, one inside another, one that edits.

Everything is named by counters, so that two runs of the same program say the same.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypedDict

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Send, interrupt


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    notes: Annotated[list[str], operator.add]
    count: int
    facts: dict[str, Any]


def tool_loop(saver: BaseCheckpointSaver | None, answers: Iterator[AIMessage]) -> Any:
    """A chat model that calls a tool, and the tool; both as LangGraph has them."""
    model = GenericFakeChatModel(messages=answers)

    @tool
    def weather(city: str) -> str:
        """The weather somewhere."""
        return f"rain in {city}"

    def agent(state: State) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(State)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode([weather]))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", tools_condition)
    builder.add_edge("tools", "agent")
    return builder.compile(checkpointer=saver)


def scripted(turns: int, size: int = 20) -> Iterator[AIMessage]:
    """For each turn a call of the tool, then an answer."""
    for n in range(turns):
        call = {"name": "weather", "args": {"city": f"city {n}"}, "id": f"call-{n}"}
        yield AIMessage("", tool_calls=[call], id=f"ask-{n}")
        yield AIMessage(f"answer {n} ".ljust(size, "x"), id=f"answer-{n}")


def chat(saver: BaseCheckpointSaver | None, size: int = 1000) -> Any:
    """The shortest conversation: one node that answers."""
    counter = itertools.count()

    def bot(state: State) -> dict[str, Any]:
        n = next(counter)
        return {"messages": [AIMessage(f"{n} ".ljust(size, "a"), id=f"a{len(state['messages'])}")]}

    builder = StateGraph(State)
    builder.add_node("bot", bot)
    builder.add_edge(START, "bot")
    builder.add_edge("bot", END)
    return builder.compile(checkpointer=saver)


class Programs:
    """The nodes of a graph that does whatever the last user message says."""

    def __init__(self) -> None:
        self._names = (f"m{n}" for n in itertools.count())

    def _ai(self, text: str, **more: Any) -> AIMessage:
        return AIMessage(text, id=next(self._names), **more)

    def act(self, state: State) -> dict[str, Any]:
        """One step, chosen by the text of the newest user message."""
        messages: list[Any] = state.get("messages", [])
        word = next((m.text for m in reversed(messages) if isinstance(m, HumanMessage)), "say")
        count = state.get("count", 0) + 1
        found: dict[str, Any] = {"count": count, "notes": [word.split()[0]]}
        step: Callable[[list[Any]], dict[str, Any]] = self._steps().get(word.split()[0], self._say)
        found.update(step(messages))
        return found

    def _steps(self) -> dict[str, Callable[[list[Any]], dict[str, Any]]]:
        return {
            "remove": lambda ms: {"messages": [RemoveMessage(id=m.id or "") for m in ms[:1]]},
            "clear": lambda ms: {
                "messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), self._ai("all is new")]
            },
            "trim": lambda ms: {
                "messages": [
                    RemoveMessage(id=REMOVE_ALL_MESSAGES),
                    SystemMessage("so far: much", id=next(self._names)),
                    *ms[-2:],
                ]
            },
            "empty": lambda ms: {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]},
            "edit": self._edit,
            "mutate": self._mutate,
            "call": self._call,
            "facts": lambda ms: {"facts": {"b": [1, 2.5, None], "a": "x" * 300, "n": len(ms)}},
        }

    def _say(self, messages: list[BaseMessage]) -> dict[str, Any]:
        return {"messages": [self._ai(f"I have {len(messages)} messages")]}

    def _edit(self, messages: list[BaseMessage]) -> dict[str, Any]:
        """The same id again: the reducer puts it in the place of the old one."""
        first = messages[0]
        return {"messages": [type(first)(content=f"edited {first.text}", id=first.id)]}

    def _mutate(self, messages: list[BaseMessage]) -> dict[str, Any]:
        """What nobody should do and the stock savers still store: change a message in place."""
        if len(messages) > 1:
            messages[0].additional_kwargs["seen"] = len(messages)
            messages[1].content = f"mutated {len(messages)}"
        return {"messages": [self._ai("I changed something")]}

    def _call(self, messages: list[BaseMessage]) -> dict[str, Any]:
        id = next(self._names)
        call = {"name": "f", "args": {"b": 1, "a": [True, None]}, "id": f"c{id}"}
        return {
            "messages": [
                AIMessage([{"type": "text", "text": "calling"}], id=id, tool_calls=[call]),
                ToolMessage({"z": 1, "y": 2}.__repr__(), tool_call_id=f"c{id}", id=f"t{id}"),
            ]
        }

    def ask(self, state: State) -> dict[str, Any]:
        """Stop and wait for a person."""
        answer = interrupt({"question": "go on?", "have": len(state.get("messages", []))})
        return {"messages": [self._ai(f"you said {answer}")], "notes": [str(answer)]}

    def fan(self, state: State) -> list[Send]:
        """Two tasks at once, each with the whole state."""
        return [Send("leaf", {**state, "count": n}) for n in range(2)]

    def leaf(self, state: State) -> dict[str, Any]:
        return {"notes": [f"leaf {state.get('count')} of {len(state.get('messages', []))}"]}


def programmable(saver: BaseCheckpointSaver | None) -> Any:
    """act, then by the user's word: a question, a graph inside, parallel tasks, or the end."""
    programs = Programs()

    def choose(state: State) -> Any:
        words = [m.text for m in state.get("messages", []) if isinstance(m, HumanMessage)]
        word = words[-1].split()[0] if words else "say"
        if word == "fan":
            return programs.fan(state)
        return {"ask": "ask", "inner": "inner", "both": "inner_ask"}.get(word, END)

    inner = StateGraph(State)
    inner.add_node("deep", programs.act)
    inner.add_edge(START, "deep")
    asking = StateGraph(State)
    asking.add_node("deep", programs.act)
    asking.add_node("wait", programs.ask)
    asking.add_edge(START, "deep")
    asking.add_edge("deep", "wait")
    builder = StateGraph(State)
    builder.add_node("act", programs.act)
    builder.add_node("ask", programs.ask)
    builder.add_node("leaf", programs.leaf)
    builder.add_node("inner", inner.compile())
    builder.add_node("inner_ask", asking.compile())
    builder.add_edge(START, "act")
    builder.add_conditional_edges("act", choose, ["ask", "inner", "inner_ask", "leaf", END])
    return builder.compile(checkpointer=saver)


def thread(name: str, **more: Any) -> Any:
    """A config."""
    return {"configurable": {"thread_id": name, **more}}
