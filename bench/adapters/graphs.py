"""LangGraph: a compiled graph of agent and tool, with a scripted model, on whatever saver.

One turn is one call of the graph: the user's message, a tool call, its result, the answer. One
update of the state puts a thread at its depth.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from bench.adapters.entries import CHAT_BYTES
from bench.contender import History, settle
from bench.peers.langgraph_sqlite import messages
from bench.work import WORDS, Turn


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


class Script:
    """The model and the tool: they say what the turn in hand says."""

    def __init__(self) -> None:
        self.turn: list[Any] = []

    def begin(self, turn: Turn) -> HumanMessage:
        self.turn = messages(turn)
        return HumanMessage(turn.user)

    def agent(self, state: State) -> dict[str, Any]:
        asked = isinstance(state["messages"][-1], HumanMessage)
        return {"messages": [self.turn[1] if asked else self.turn[3]]}

    def tool(self, state: State) -> dict[str, Any]:
        return {"messages": [self.turn[2]]}

    async def agent_later(self, state: State) -> dict[str, Any]:
        return self.agent(state)

    async def tool_later(self, state: State) -> dict[str, Any]:
        return self.tool(state)


class Chat(Script):
    """Nothing but a text of a thousand bytes on either side."""

    def __init__(self) -> None:
        super().__init__()
        self.chance = random.Random(1)

    def text(self) -> str:
        words = " ".join(self.chance.choices(WORDS, k=CHAT_BYTES))
        return words[:CHAT_BYTES]

    def begin(self, turn: Turn) -> HumanMessage:
        self.turn = [None, None, None, AIMessage(self.text(), id=str(uuid4()))]
        return HumanMessage(self.text())

    def agent(self, state: State) -> dict[str, Any]:
        return {"messages": [self.turn[3]]}


def after_agent(state: State) -> str:
    last = state["messages"][-1]
    return "tool" if isinstance(last, AIMessage) and last.tool_calls else END


class Graphs:
    """A graph on one saver for all threads; when it is cold, on a new one for each turn."""

    is_async = False

    def __init__(
        self,
        saver: Callable[[], Any],
        close: Callable[[], Any],
        *,
        cold: bool = False,
        script: Script | None = None,
    ) -> None:
        self.saver = saver
        self.on_close = close
        self.cold = cold
        self.script = script or Script()
        self.builder = self.built()
        self.graph = self.builder.compile(checkpointer=saver())
        self.graphs: dict[int, Any] = {}

    def built(self) -> Any:
        builder: Any = StateGraph(State)
        script = self.script
        builder.add_node("agent", script.agent_later if self.is_async else script.agent)
        builder.add_node("tool", script.tool_later if self.is_async else script.tool)
        builder.add_edge(START, "agent")
        builder.add_conditional_edges("agent", after_agent, ["tool", END])
        builder.add_edge("tool", "agent")
        return builder

    def create(self, numbers: Sequence[int]) -> None:
        """A thread begins with its first turn."""

    def attach(self, numbers: Sequence[int]) -> Any:
        for number in numbers:
            if self.cold:
                self.graphs[number] = self.builder.compile(checkpointer=self.saver())
            elif number not in self.graphs:
                self.graphs[number] = self.graph
                self.graph.get_state(config(number))

    def commit(self, number: int, turn: Turn) -> Any:
        said = self.script.begin(turn)
        self.graphs[number].invoke({"messages": [said]}, config(number))

    def tidy(self) -> None:
        """Each store does so by itself."""

    async def fill(self, histories: Sequence[History], turns: Sequence[Turn]) -> int:
        for number, depth in histories:
            held = [turns[(number + place) % len(turns)] for place in range(depth)]
            said = [message for turn in held for message in messages(turn)]
            await settle(self.update(number, said))
        return sum(depth for _, depth in histories)

    def update(self, number: int, said: list[Any]) -> Any:
        self.graph.update_state(config(number), {"messages": said}, as_node="agent")

    def load(self, number: int) -> Any:
        return self.graph.get_state(config(number)).values["messages"]

    def last(self, number: int, count: int) -> Any:
        return self.load(number)[-count:]

    async def close(self) -> None:
        await settle(self.on_close())


class AsyncGraphs(Graphs):
    is_async = True

    async def attach(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if self.cold:
                self.graphs[number] = self.builder.compile(checkpointer=self.saver())
            elif number not in self.graphs:
                self.graphs[number] = self.graph
                await self.graph.aget_state(config(number))

    async def commit(self, number: int, turn: Turn) -> None:
        said = self.script.begin(turn)
        await self.graphs[number].ainvoke({"messages": [said]}, config(number))

    async def update(self, number: int, said: list[Any]) -> None:
        await self.graph.aupdate_state(config(number), {"messages": said}, as_node="agent")

    async def load(self, number: int) -> Any:
        return (await self.graph.aget_state(config(number))).values["messages"]

    async def last(self, number: int, count: int) -> Any:
        return (await self.load(number))[-count:]


def config(number: int) -> Any:
    return {"configurable": {"thread_id": f"bench-{number:08d}"}}
