"""What others say in the session of a thread is taken up by its graph, and never displaced."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from ledgerstone import Store, assistant, user
from ledgerstone.adapters.langgraph import LedgerSaver
from ledgerstone.adapters.langgraph.threads import VIEWS_MAX
from ledgerstone.errors import LeafMoved
from tests.adapters.langgraph.graphs import thread
from tests.adapters.langgraph.puts import put, values

T = thread("t")


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    count: int


def answer(state: Any) -> dict[str, Any]:
    said = state.get("messages", [])
    return {"messages": [AIMessage(f"{len(said)} so far")]} if said else {"count": 1}


def graph_of(saver: LedgerSaver, node: Callable[..., Any] = answer, state: Any = State) -> Any:
    builder = StateGraph(state)
    builder.add_node("bot", node)
    builder.add_edge(START, "bot")
    return builder.compile(checkpointer=saver)


def ask(graph: Any, text: str, config: Any = T, **how: Any) -> Any:
    return graph.invoke({"messages": [HumanMessage(text)]}, config, **how)


def said(store: Store, session: str = "t") -> list[str]:
    return [one.text for one in store.messages.history(session)]


def shown(graph: Any, config: Any = T) -> list[str]:
    return [one.text for one in graph.get_state(config).values.get("messages", [])]


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("anew", [False, True])
def test_what_others_add_is_taken_up(adapter_store: Store, durability: str, anew: bool) -> None:
    graph = graph_of(LedgerSaver(adapter_store))
    ask(graph, "a", durability=durability)
    adapter_store.messages.append("t", user("from elsewhere"), assistant("indeed"))
    if anew:
        graph = graph_of(LedgerSaver(adapter_store))
    before = ["a", "1 so far", "from elsewhere", "indeed"]
    assert shown(graph) == before
    ask(graph, "b", durability=durability)
    assert said(adapter_store) == shown(graph) == [*before, "b", "5 so far"]
    assert shown(graph_of(LedgerSaver(adapter_store))) == said(adapter_store)
    assert len(adapter_store.nodes.path("t", kind="message")) == 6, "nothing is stored twice"
    assert adapter_store.admin.verify().ok


def test_a_session_that_began_elsewhere(adapter_store: Store) -> None:
    adapter_store.messages.append("t", user("older"), create=True)
    saver = LedgerSaver(adapter_store)
    graph = graph_of(saver)
    assert shown(graph) == ["older"]
    revision = adapter_store.sessions.head("t").revision  # type: ignore[union-attr]
    begun = graph.get_state(T)
    assert shown(graph, begun.config) == ["older"]
    head = adapter_store.sessions.head("t")
    assert head is not None
    assert head.revision == revision, "reading writes nothing"
    assert list(saver.list(T)) == []
    ask(graph, "newer")
    assert said(adapter_store) == shown(graph) == ["older", "newer", "2 so far"]
    *_, first = graph.get_state_history(T)
    assert first.config == begun.config
    assert [one.text for one in first.values["messages"]] == ["older"]
    for one in (graph, graph_of(LedgerSaver(adapter_store))):
        assert shown(one, begun.config) == ["older"]


@pytest.mark.parametrize("anew", [False, True])
def test_a_checkpoint_that_is_named_stays_as_it_was(adapter_store: Store, anew: bool) -> None:
    graph = graph_of(LedgerSaver(adapter_store))
    ask(graph, "a")
    first = graph.get_state(T).config
    adapter_store.messages.append("t", user("from elsewhere"))
    if anew:
        graph = graph_of(LedgerSaver(adapter_store))
    assert shown(graph, first) == ["a", "1 so far"]
    assert [one.text for one in next(graph.get_state_history(T)).values["messages"]] == [
        "a",
        "1 so far",
    ]
    # The newest one is not gone back to by naming it: what came since stays in the history.
    ask(graph, "b", first)
    assert said(adapter_store) == ["a", "1 so far", "from elsewhere", "b", "3 so far"]
    assert shown(graph) == said(adapter_store)
    # An older one is: the conversation goes on from there.
    ask(graph, "c", first)
    assert said(adapter_store) == shown(graph) == ["a", "1 so far", "c", "3 so far"]


def speaking(store: Store, then: Callable[[State], Any]) -> Callable[[State], Any]:
    """A node during which somebody else speaks in the session."""

    def node(state: State) -> Any:
        store.messages.append("t", user("meanwhile"))
        return then(state)

    return node


@pytest.mark.parametrize("looked", [False, True])
def test_what_is_said_while_a_graph_runs_stays(adapter_store: Store, looked: bool) -> None:
    saver = LedgerSaver(adapter_store)

    def then(state: State) -> dict[str, Any]:
        if looked:
            assert shown(graph_of(saver)) == said(adapter_store)
        return answer(state)

    builder: Any = StateGraph(State)
    builder.add_node("one", speaking(adapter_store, then))
    builder.add_node("two", answer)
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    graph: Any = builder.compile(checkpointer=saver)
    done = ask(graph, "a", durability="sync")
    assert [one.text for one in done["messages"]] == ["a", "1 so far", "2 so far"]
    after = ["a", "meanwhile", "1 so far", "2 so far"]
    assert said(adapter_store) == shown(graph) == after
    ask(graph, "b", durability="sync")
    assert said(adapter_store) == [*after, "b", "meanwhile", "5 so far", "6 so far"]
    assert shown(graph_of(LedgerSaver(adapter_store))) == said(adapter_store)
    assert adapter_store.admin.verify().ok


def test_a_run_that_leaves_the_messages_alone(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    ask(graph_of(saver), "a")
    adapter_store.messages.append("t", user("before"))
    graph = graph_of(saver, speaking(adapter_store, lambda state: {"count": 2}))
    graph.invoke({"count": 1}, T, durability="sync")
    after = ["a", "1 so far", "before", "meanwhile"]
    assert said(adapter_store) == shown(graph) == after
    graph.update_state(T, {"count": 3})
    assert said(adapter_store) == shown(graph_of(LedgerSaver(adapter_store))) == after


def rewrite(state: State) -> dict[str, Any]:
    return {"messages": [RemoveMessage(str(state["messages"][0].id)), AIMessage("shorter")]}


@pytest.mark.parametrize("how", ["rewritten", "strict", "emptied"])
def test_a_run_that_would_displace_what_it_has_not_seen_is_told(
    adapter_store: Store, how: str
) -> None:
    strict = {"on_divergence": "refuse"} if how == "strict" else {}
    saver = LedgerSaver(adapter_store, **strict)  # type: ignore[arg-type]

    def empty(state: State) -> dict[str, Any]:
        return {"messages": [RemoveMessage("__remove_all__")]}

    node = {"rewritten": rewrite, "strict": answer, "emptied": empty}[how]
    graph = graph_of(saver, speaking(adapter_store, node))
    with pytest.raises(LeafMoved, match=r"saver\.adopt\(thread_id\)"):
        ask(graph, "a", durability="sync")
    assert said(adapter_store) == ["a", "meanwhile"]
    # Taken up by the next run, which may change what it has seen.
    ask(graph_of(LedgerSaver(adapter_store)), "b")
    assert said(adapter_store) == ["a", "meanwhile", "b", "3 so far"]
    assert saver.adopt("t") is not None
    assert shown(graph_of(saver)) == said(adapter_store)


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_a_run_may_change_what_it_has_seen(adapter_store: Store, durability: str) -> None:
    saver = LedgerSaver(adapter_store, on_divergence="refuse")
    ask(graph_of(saver), "a")
    adapter_store.messages.append("t", user("from elsewhere"))
    graph = graph_of(saver, rewrite)
    ask(graph, "b", durability=durability)
    after = ["1 so far", "from elsewhere", "b", "shorter"]
    assert said(adapter_store) == shown(graph) == after
    adapter_store.messages.append("t", user("wrong"))
    found = graph.get_state(T).values["messages"]
    graph.update_state(T, {"messages": [RemoveMessage(found[-1].id)]})
    assert said(adapter_store) == shown(graph) == after


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("gone", [(2,), (3,), (4,), (2, 4), (2, 3, 4)])
@pytest.mark.parametrize("more", [[], ["instead"]])
def test_messages_of_others_are_removed_one_by_one(
    adapter_store: Store, anew: bool, gone: tuple[int, ...], more: list[str]
) -> None:
    graph = graph_of(LedgerSaver(adapter_store))
    ask(graph, "a")
    adapter_store.messages.append("t", user("x"), assistant("y"), user("z"))
    if anew:
        graph = graph_of(LedgerSaver(adapter_store))
    before = [one.id for one in adapter_store.messages.history("t")]
    found = graph.get_state(T).values["messages"]
    removed = [RemoveMessage(found[n].id) for n in gone]
    graph.update_state(T, {"messages": [*removed, *map(AIMessage, more)]})
    after = [one.text for n, one in enumerate(found) if n not in gone] + more
    assert said(adapter_store) == shown(graph) == after
    now = [one.id for one in adapter_store.messages.history("t")]
    assert now[: gone[0]] == before[: gone[0]], "what comes before is not stored again"


class Late(LedgerSaver):
    """Puts wait, as on a slow link, until somebody else has spoken."""

    spoken: threading.Event | None = None

    def put(self, *given: Any, **more: Any) -> Any:
        assert self.spoken is None or self.spoken.wait(20)
        return super().put(*given, **more)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("looks", ["", "after", "before and after"])
@pytest.mark.parametrize("durability", ["async", "exit"])
def test_what_is_said_before_a_run_is_put_stays(
    adapter_store: Store, older: bool, anew: bool, looks: str, durability: str
) -> None:
    saver = Late(adapter_store)
    before = ["older"]
    adapter_store.messages.append("t", user("older"), create=True)
    if older:
        ask(graph_of(saver), "a")
        adapter_store.messages.append("t", user("from elsewhere"))
        before = said(adapter_store)
    if anew:
        saver = Late(adapter_store)
    saver.spoken = threading.Event()

    def speak(text: str) -> Callable[[State], Any]:
        def node(state: State) -> Any:
            for moment in ("before", "", "after"):
                if not moment:
                    adapter_store.messages.append("t", user(text))
                elif moment in looks:
                    graph_of(saver).get_state(T)
            return {"messages": [AIMessage(f"re {text}")]}

        return node

    def last(state: State) -> Any:
        assert saver.spoken is not None
        saver.spoken.set()

    builder: Any = StateGraph(State)
    builder.add_sequence([("one", speak("one")), ("two", speak("two")), ("last", last)])
    builder.add_edge(START, "one")
    ask(builder.compile(checkpointer=saver), "b", durability=durability)
    now = said(adapter_store)
    assert now[: len(before)] == before
    assert sorted(now[len(before) :]) == ["b", "one", "re one", "re two", "two"]
    for one in (saver, LedgerSaver(adapter_store)):
        assert shown(graph_of(one)) == now


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("count", [8, VIEWS_MAX + 8])
def test_much_is_said_and_looked_at_while_a_graph_runs(
    adapter_store: Store, durability: str, count: int
) -> None:
    saver = LedgerSaver(adapter_store)
    ask(graph_of(saver), "a")
    adapter_store.messages.append("t", user("from elsewhere"))
    before = said(adapter_store)
    texts = [f"meanwhile {n}" for n in range(count)]

    def node(state: State) -> Any:
        for text in texts:
            adapter_store.messages.append("t", user(text))
            assert shown(graph_of(saver))[-1] == text
        return answer(state)

    try:
        ask(graph_of(saver, node), "b", durability=durability)
    except LeafMoved:
        assert (durability, count) == ("exit", VIEWS_MAX + 8), "too much to tell who saw what"
    now = said(adapter_store)
    assert now[: len(before)] == before
    assert [one for one in now if one in texts] == texts
    ask(graph_of(saver), "c")
    assert said(adapter_store)[: len(now) + 1] == [*now, "c"]


def test_an_interrupted_run_goes_on_after_what_others_said(adapter_store: Store) -> None:
    def wait(state: State) -> dict[str, Any]:
        go = interrupt("go on?")
        return {"messages": [AIMessage(f"{go}, {len(state['messages'])} so far")]}

    ask(graph_of(LedgerSaver(adapter_store), wait), "a")
    adapter_store.messages.append("t", user("from elsewhere"))
    graph = graph_of(LedgerSaver(adapter_store), wait)
    assert graph.get_state(T).interrupts[0].value == "go on?"
    graph.invoke(Command(resume="yes"), T)
    assert said(adapter_store) == shown(graph) == ["a", "from elsewhere", "yes, 2 so far"]


def test_what_others_take_away_does_not_come_back(adapter_store: Store) -> None:
    graph = graph_of(LedgerSaver(adapter_store))
    ask(graph, "a")
    adapter_store.messages.pop("t")
    assert shown(graph) == shown(graph_of(LedgerSaver(adapter_store))) == ["a"]
    graph.update_state(T, {"count": 1})
    assert said(adapter_store) == shown(graph) == ["a"]
    adapter_store.messages.clear("t")
    assert shown(graph) == shown(graph_of(LedgerSaver(adapter_store))) == []
    graph.update_state(T, {"count": 2})
    assert said(adapter_store) == shown(graph) == []
    ask(graph, "b")
    assert said(adapter_store) == shown(graph) == ["b", "1 so far"]


def test_what_a_deleted_run_said_is_not_taken_up(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    config = put(saver, T, {"messages": [HumanMessage("a", id="1")]}, run_id="kept")
    more = [HumanMessage("a", id="1"), AIMessage("b", id="2")]
    put(saver, config, {"messages": more}, run_id="doomed")
    saver.delete_for_runs(["doomed"])
    for one in (saver, LedgerSaver(adapter_store)):
        assert values(one, T)["messages"] == more[:1]


def test_a_channel_of_another_name(adapter_store: Store) -> None:
    class Other(TypedDict):
        talk: Annotated[list[AnyMessage], add_messages]

    def reply(state: Other) -> dict[str, Any]:
        return {"talk": [AIMessage(f"{len(state['talk'])} so far")]}

    adapter_store.messages.append("t", user("older"), create=True)
    graph = graph_of(LedgerSaver(adapter_store), reply, Other)
    graph.invoke({"talk": [HumanMessage("a")]}, T)
    assert said(adapter_store) == ["older", "a", "1 so far"]
    adapter_store.messages.append("t", user("from elsewhere"))
    graph.invoke({"talk": [HumanMessage("b")]}, T)
    assert said(adapter_store) == [
        *("older", "a", "1 so far", "from elsewhere", "b", "4 so far"),
    ]


def _fold(left: list[AnyMessage], writes: list[Any]) -> list[AnyMessage]:
    for one in writes:
        left = add_messages(left, one)  # type: ignore[assignment, arg-type]
    return left


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_fold, snapshot_frequency=4)]


def test_a_delta_channel_cannot_take_up_and_says_so(adapter_store: Store) -> None:
    """It can begin with what others said: that is stored whole."""
    adapter_store.messages.append("t", user("older"), create=True)
    saver = LedgerSaver(adapter_store)
    graph = graph_of(saver, answer, Delta)
    for n in range(4):
        ask(graph, str(n))
    told = ["older", "0", "2 so far", "1", "4 so far", "2", "6 so far", "3", "8 so far"]
    assert shown(graph) == shown(graph_of(LedgerSaver(adapter_store), answer, Delta)) == told
    adapter_store.messages.append("t", user("from elsewhere"))
    before = said(adapter_store)
    with pytest.raises(LeafMoved, match=r"saver\.adopt\(thread_id\)"):
        ask(graph, "4")
    assert said(adapter_store) == before
    saver.adopt("t")
    ask(graph, "5")
    assert shown(graph) == [*before, "5", f"{len(before) + 1} so far"]


class Program:
    """Random steps of a graph and of others in one session, beside a list of what was said."""

    def __init__(self, store: Store, rng: random.Random) -> None:
        self.store, self.rng = store, rng
        self.saver = LedgerSaver(store)
        self.said: list[str] = []
        self.n = 0

    def step(self) -> str:
        name = self.rng.choice(
            ["invoke", "invoke", "append", "append", "meanwhile", "pop", "update", "remove", "anew"]
        )
        self.n += 1
        getattr(self, f"_{name}")(f"{name} {self.n}")
        return name

    def _reply(self, state: State) -> dict[str, Any]:
        assert [one.text for one in state["messages"]] == self.said
        self.said.append(f"re {self.n}")
        return {"messages": [AIMessage(self.said[-1])]}

    def _invoke(self, text: str) -> None:
        self.said.append(text)
        how = self.rng.choice(["sync", "async", "exit"])
        ask(graph_of(self.saver, self._reply), text, durability=how)

    def _meanwhile(self, text: str) -> None:
        def node(state: State) -> dict[str, Any]:
            self._append(f"during {text}")
            self.said.append(f"re {self.n}")
            return {"messages": [AIMessage(self.said[-1])]}

        # The input is put before the node runs.
        self.said.append(text)
        ask(graph_of(self.saver, node), text, durability="sync")

    def _append(self, text: str) -> None:
        self.store.messages.append("t", user(text), create=True)
        self.said.append(text)

    def _pop(self, text: str) -> None:
        if self.said:
            self.store.messages.pop("t")
            self.said.pop()

    def _update(self, text: str) -> None:
        graph_of(self.saver).update_state(T, {"count": self.n})

    def _remove(self, text: str) -> None:
        graph = graph_of(self.saver)
        found = graph.get_state(T).values.get("messages", [])
        if found:
            at = self.rng.randrange(len(found))
            graph.update_state(T, {"messages": [RemoveMessage(found[at].id)]})
            del self.said[at]

    def _anew(self, text: str) -> None:
        self.saver = LedgerSaver(self.store)


@pytest.mark.parametrize("n", range(8))
def test_random_programs(adapter_store: Store, seed: int, n: int) -> None:
    program = Program(adapter_store, random.Random(seed + n))
    steps: list[str] = []
    for _ in range(25):
        steps.append(program.step())
        assert said(adapter_store) == program.said, f"seed {seed}, {n}: {steps}"
        assert shown(graph_of(program.saver)) == program.said, f"seed {seed}, {n}: {steps}"
    assert adapter_store.admin.verify().ok
