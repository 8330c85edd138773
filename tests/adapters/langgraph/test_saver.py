"""What LangGraph's suite does not ask: order of calls, two writers, odd names, odd values."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Interrupt, Send

from ledgerstone import Store, assistant, user
from ledgerstone.adapters.langgraph import LedgerSaver
from ledgerstone.errors import (
    AlreadyExists,
    Fenced,
    InvalidValue,
    LeafMoved,
)
from tests.adapters.conftest import decided_by_the_adapter
from tests.adapters.langgraph.graphs import chat, programmable, thread
from tests.adapters.langgraph.puts import checkpoint, put, values

ODD_VALUES: dict[str, Any] = {
    "nothing": None,
    "unsorted": {"b": 1, "a": {"z": [], "y": {}}},
    "dollars": {"$tip": "not a pointer", "$value": {"$b": 1}},
    "numbers": [0, -1, 2**63 - 1, -(2**63), 1.5, -0.0, True, False],
    "beyond": [float("inf")],
    "bytes": b"\x00\xff",
    "long": "x" * 5000,
    "nul": "a\x00b",
    "deep": [[[[[[[[[[1]]]]]]]]]],
    "keys": {1: "one", (2, 3): "pair"},
    "when": datetime(2024, 1, 2, tzinfo=UTC),
    "set": {1, 2},
    "many": list(range(5000)),
    "sends": [Send("n", {"messages": [HumanMessage("hi", id="1")], "x": 1})],
    "interrupts": [Interrupt(value={"q": "?"}, id="i")],
    "one": AIMessage("alone", id="2"),
    "inside": {"a": [HumanMessage("deep", id="3")], "b": "text"},
    "mixed": ["text", HumanMessage("in a list", id="4"), {"x": None}],
    "empty": [],
    "text": "",
}


@pytest.mark.parametrize("name", ODD_VALUES)
def test_values_come_back_as_they_were(adapter_store: Store, name: str) -> None:
    put(LedgerSaver(adapter_store), thread("t"), {"x": ODD_VALUES[name]})
    found = values(LedgerSaver(adapter_store), thread("t"))["x"]
    assert found == ODD_VALUES[name]
    assert repr(found) == repr(ODD_VALUES[name])


def test_a_lone_surrogate_is_kept(adapter_store: Store) -> None:
    put(LedgerSaver(adapter_store), thread("t"), {"x": "a\ud800b"}, note="\ud800")
    assert values(LedgerSaver(adapter_store), thread("t"))["x"] == "a\ud800b"


def test_writes_may_come_before_their_checkpoint(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    made = checkpoint({"messages": [HumanMessage("hello", id="1")]})
    config = thread("t", checkpoint_ns="", checkpoint_id=made["id"])
    saver.put_writes(config, [("messages", [AIMessage("early", id="2")])], "task", "path")
    assert saver.get_tuple(thread("t")) is None
    saver.put(thread("t", checkpoint_ns=""), made, {"step": 0}, made["channel_versions"])
    found = saver.get_tuple(thread("t"))
    assert found is not None
    assert found.pending_writes == [("task", "messages", [AIMessage("early", id="2")])]


def test_writes_are_in_the_order_in_which_they_are_applied(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    config = put(saver, thread("t"), {})
    saver.put_writes(config, [("a", 1), ("b", 2)], "z-task", "path 1")
    saver.put_writes(config, [("c", 3)], "a-task", "path 2")
    saver.put_writes(config, [("d", 4)], "m-task", "")
    # The same task again: what is there stays, what is new is added.
    saver.put_writes(config, [("a", 9), ("b", 9), ("e", 5)], "z-task", "path 1")
    found = saver.get_tuple(config)
    assert found is not None
    assert [(c, v) for _, c, v in found.pending_writes or []] == [
        ("d", 4),
        ("a", 1),
        ("b", 2),
        ("e", 5),
        ("c", 3),
    ]


TASK = "1f1e1d1c-3ab1-687d-ab6e-87d387ab62cb"


@pytest.mark.parametrize(
    "task", ["plain", ".dotted", "a:b", "t" * 2000, "tab\t", "", TASK, TASK.upper()]
)
def test_tasks_may_have_any_name(adapter_store: Store, task: str) -> None:
    saver = LedgerSaver(adapter_store)
    config = put(saver, thread("t"), {})
    for path in ("~__pregel_pull, n", "<odd"):
        saver.put_writes(config, [("x", 1), ("y", 2)], task, path)
        saver.put_writes(config, [("x", 1), ("y", 2), ("z", 3)], task, path)
    found = saver.get_tuple(config)
    assert found is not None
    assert found.pending_writes == [(task, "x", 1), (task, "y", 2), (task, "z", 3)]


def test_a_thread_may_be_copied_with_the_newest_checkpoint_first(adapter_store: Store) -> None:
    source, target = InMemorySaver(), LedgerSaver(adapter_store)
    graph = chat(source)
    for text in ("a", "b"):
        graph.invoke({"messages": [HumanMessage(text)]}, thread("t"))
    given = list(source.list(thread("t")))
    for one in given:
        versions = one.checkpoint["channel_versions"]
        config = one.parent_config or thread("t", checkpoint_ns="")
        target.put(config, one.checkpoint, one.metadata, versions)
    found = list(target.list(thread("t")))
    assert [one.checkpoint for one in found] == [one.checkpoint for one in given]
    assert [one.parent_config for one in found] == [one.parent_config for one in given]


def test_the_second_writer_of_one_parent_is_told(adapter_store: Store) -> None:
    first = LedgerSaver(adapter_store, on_divergence="refuse")
    second = LedgerSaver(adapter_store, on_divergence="refuse")
    parent = put(first, thread("t"), {"x": 0})
    for saver in (first, second):
        assert values(saver, thread("t")) == {"x": 0}
    ours = put(first, parent, {"x": 1})
    with pytest.raises(LeafMoved) as refused:
        put(second, parent, {"x": 2})
    assert refused.value.expected == parent["configurable"]["checkpoint_id"]
    assert refused.value.actual == ours["configurable"]["checkpoint_id"]
    assert len(list(first.list(thread("t")))) == 2, "nothing of it is stored"
    # Whoever asks for a checkpoint by its id means to go on from there.
    assert second.get_tuple(parent) is not None
    put(second, parent, {"x": 2})
    assert values(first, thread("t")) == {"x": 2}


def test_two_writers_of_one_parent_are_both_kept_by_default(adapter_store: Store) -> None:
    first, second = LedgerSaver(adapter_store), LedgerSaver(adapter_store)
    start = [HumanMessage("hello", id="1")]
    parent = put(first, thread("t"), {"messages": start})
    assert values(second, thread("t"))["messages"] == start
    a = put(first, parent, {"messages": [*start, AIMessage("a", id="2")]})
    b = put(second, parent, {"messages": [*start, AIMessage("b", id="3")]})
    for saver in (first, second, LedgerSaver(adapter_store)):
        assert values(saver, a)["messages"][-1].text == "a"
        assert values(saver, b)["messages"][-1].text == "b"
    assert adapter_store.messages.last("t", 1)[0].text == "b"


def test_a_lease_fences_a_thread(adapter_store: Store) -> None:
    adapter_store.sessions.create(id="t")
    old = adapter_store.leases.take("t", owner="old", ttl_s=60)
    assert old is not None
    saver = LedgerSaver(adapter_store)
    put(saver, thread("t", ledger_lease=old), {"x": 1})
    adapter_store.leases.break_("t", by="test", reason="test")
    assert adapter_store.leases.take("t", owner="new", ttl_s=60) is not None
    with pytest.raises(Fenced):
        put(saver, thread("t", ledger_lease=old), {"x": 2})
    assert values(saver, thread("t")) == {"x": 1}


@pytest.mark.parametrize("config", [{}, {"configurable": {}}, thread(""), thread("t" * 5, x=1)])
def test_a_config_names_a_thread(adapter_store: Store, config: Any) -> None:
    saver = LedgerSaver(adapter_store)
    if config.get("configurable", {}).get("thread_id"):
        assert saver.get_tuple(config) is None
        return
    with pytest.raises(InvalidValue, match="thread_id"):
        saver.get_tuple(config)


def test_a_checkpoint_that_does_not_exist(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    config = put(saver, thread("t"), {"x": 1})
    assert saver.get_tuple(thread("t", checkpoint_id="none")) is None
    assert saver.get_tuple(thread("other")) is None
    assert (
        saver.get_tuple({"configurable": {**config["configurable"], "checkpoint_ns": "n"}}) is None
    )
    assert list(saver.list(thread("t", checkpoint_id="none"))) == []
    # A node of another kind is no checkpoint.
    [message] = adapter_store.messages.append("t", user("hi"))
    assert saver.get_tuple(thread("t", checkpoint_id=message.id)) is None
    with pytest.raises(InvalidValue, match="checkpoint_id"):
        saver.get_tuple(thread("t", checkpoint_id="x" * 300))


def test_a_thread_of_another_tenant_is_not_there(adapter_store: Store) -> None:
    put(LedgerSaver(adapter_store), thread("t"), {"x": 1})
    other = LedgerSaver(adapter_store.for_tenant("other"))
    assert other.get_tuple(thread("t")) is None
    assert list(other.list(None)) == []
    other.delete_thread("t")
    assert values(LedgerSaver(adapter_store), thread("t")) == {"x": 1}


@pytest.mark.parametrize("name", ["x" * 300, "tab\there", "a\x00b", "ünï", "17"])
def test_threads_may_have_any_name(adapter_store: Store, name: str) -> None:
    saver = LedgerSaver(adapter_store)
    config = put(saver, thread(name), {"x": 1})
    saver.put_writes(config, [("x", 2)], "task")
    [found] = LedgerSaver(adapter_store).list(None)
    assert found.config["configurable"]["thread_id"] == name
    saver.copy_thread(name, "copy")
    assert {one.config["configurable"]["thread_id"] for one in saver.list(None)} == {name, "copy"}
    saver.delete_thread(name)
    assert saver.get_tuple(thread(name)) is None
    assert values(saver, thread("copy")) == {"x": 1}


def test_namespaces_share_ids_and_may_be_long(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    made = checkpoint({"x": "root"})
    deep = "|".join(f"a_rather_long_node_name_{n}:{uuid6()}" for n in range(8))
    for ns in ("", "inner:1", deep):
        named: Any = {**made, "channel_values": {"x": ns or "root"}}
        saver.put(thread("t", checkpoint_ns=ns), named, {"step": 0}, {"x": 1})
    for ns in ("", "inner:1", deep):
        assert values(saver, thread("t", checkpoint_ns=ns, checkpoint_id=made["id"])) == {
            "x": ns or "root"
        }
    assert len(list(saver.list(thread("t")))) == 3


def test_the_same_checkpoint_again_says_what_it_says_now(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    made = checkpoint({"x": 1, "messages": [HumanMessage("a", id="1")]})
    other: Any = {**made, "channel_values": {"x": 2, "messages": []}}
    for given in (made, made, other):
        saver.put(thread("t", checkpoint_ns=""), given, {"step": given["channel_values"]["x"]}, {})
    for one in (saver, LedgerSaver(adapter_store)):
        assert values(one, thread("t")) == {"x": 2, "messages": []}
        assert [found.metadata["step"] for found in one.list(thread("t"), filter={"step": 2})] == [
            2
        ]
        assert list(one.list(thread("t"), filter={"step": 1})) == []


def test_a_session_that_began_elsewhere_is_adopted(adapter_store: Store) -> None:
    adapter_store.messages.append(
        "t", user("hello"), assistant("hi there"), user("what next?"), create=True
    )
    saver = LedgerSaver(adapter_store)
    adopted = saver.adopt("t")
    assert adopted is not None
    graph = programmable(saver)
    assert [m.text for m in graph.get_state(thread("t")).values["messages"]] == [
        "hello",
        "hi there",
        "what next?",
    ]
    graph.invoke({"messages": [HumanMessage("say it", id="h")]}, thread("t"))
    texts = [one.text for one in adapter_store.messages.history("t")]
    assert texts == ["hello", "hi there", "what next?", "say it", "I have 4 messages"]
    assert len(adapter_store.nodes.path("t", kind="message")) == 5, "nothing was written again"
    # And once more, after somebody else has spoken.
    adapter_store.messages.append("t", user("from elsewhere"))
    assert LedgerSaver(adapter_store).adopt("t") is not None
    graph.invoke({"messages": [HumanMessage("say more", id="h2")]}, thread("t"))
    texts = [one.text for one in adapter_store.messages.history("t")]
    assert texts[5:] == ["from elsewhere", "say more", "I have 7 messages"]
    assert saver.adopt("none") is None


def test_a_graph_inside_may_be_put_before_the_one_around_it(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    said = [HumanMessage("a", id="1"), AIMessage("b", id="2"), AIMessage("c", id="3")]
    config = put(saver, thread("t"), {"messages": said[:1]})
    put(saver, thread("t", checkpoint_ns="inner:1"), {"messages": said[:2]})
    config = put(saver, config, {"messages": said[:2]})
    inner = put(saver, thread("t", checkpoint_ns="inner:2"), {"messages": said})
    put(saver, config, {"messages": said})
    for one in (saver, LedgerSaver(adapter_store)):
        assert values(one, thread("t"))["messages"] == said
        assert values(one, inner)["messages"] == said
        assert values(one, thread("t", checkpoint_ns="inner:1"))["messages"] == said[:2]
    assert [one.text for one in adapter_store.messages.history("t")] == ["a", "b", "c"]


def test_versions_are_numbers_and_texts_go_on_as_texts(adapter_store: Store) -> None:
    saver, stock = LedgerSaver(adapter_store), InMemorySaver()
    assert saver.get_next_version(None, None) == 1
    assert saver.get_next_version(7, None) == 8
    version = stock.get_next_version(None, None)
    for n in range(2, 120):
        before, version = version, saver.get_next_version(version, None)
        assert before < version < stock.get_next_version(version, None)
        assert int(version.split(".")[0]) == n


def test_a_thread_that_came_with_texts_for_versions_goes_on(adapter_store: Store) -> None:
    stock = InMemorySaver()
    chat(stock).invoke({"messages": [HumanMessage("0", id="h0")]}, thread("t"))
    saver = LedgerSaver(adapter_store)
    for found in reversed(list(stock.list(thread("t")))):
        parent = found.parent_config or thread("t", checkpoint_ns="")
        saver.put(parent, found.checkpoint, found.metadata, found.checkpoint["channel_versions"])
    graphs = [chat(stock), chat(saver)]
    for n in range(1, 12):
        for graph in graphs:
            graph.invoke({"messages": [HumanMessage(f"{n}", id=f"h{n}")]}, thread("t"))
        graphs[1] = chat(LedgerSaver(adapter_store)) if n == 6 else graphs[1]
    ids = [[one.id for one in each.get_state(thread("t")).values["messages"]] for each in graphs]
    assert ids[0] == ids[1]
    assert len(ids[0]) == 24
    assert saver.adopt("t") is not None
    graphs[1].invoke({"messages": [HumanMessage("last")]}, thread("t"))
    assert len(values(saver, thread("t"))["messages"]) == 26


@decided_by_the_adapter
@pytest.mark.parametrize(
    "versions",
    [
        {"x": "1"},
        {"x": "one"},
        {"x": ""},
        {"x": "9" * 32},
        {"x": 1, "y": "00000000000000000000000000000003.0.123"},
        {"x": True},
        {"x": None},
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": [1]},
    ],
    ids=str,
)
@pytest.mark.parametrize("where", ["channel_versions", "versions_seen"])
def test_versions_that_no_thread_can_go_on_from(
    adapter_store: Store, versions: Any, where: str
) -> None:
    saver = LedgerSaver(adapter_store)
    put(saver, thread("t"), {"x": 1})
    made = checkpoint({"x": 2})
    made[where] = versions if where == "channel_versions" else {"node": versions}
    with pytest.raises(InvalidValue, match=r"checkpoint\.channel_versions"):
        saver.put(thread("t", checkpoint_ns=""), made, {"source": "loop"}, versions)
    assert values(saver, thread("t")) == {"x": 1}


def test_a_copy_has_a_fate_of_its_own(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    graph = chat(saver, size=10)
    graph.invoke({"messages": [HumanMessage("a", id="a")]}, thread("t"))
    saver.copy_thread("t", "u")
    graph.invoke({"messages": [HumanMessage("b", id="b")]}, thread("u"))
    assert len(graph.get_state(thread("t")).values["messages"]) == 2
    assert len(graph.get_state(thread("u")).values["messages"]) == 4
    with pytest.raises(AlreadyExists):
        saver.copy_thread("t", "u")
    saver.copy_thread("none", "v")
    assert saver.get_tuple(thread("v")) is None


def test_many_writers_at_once(adapter_store: Store) -> None:
    """Threads that put and write to one thread of a graph all get their turn."""

    async def go() -> None:
        saver = LedgerSaver(adapter_store)
        parent = await saver.aput(
            thread("t", checkpoint_ns=""), checkpoint({"x": 0}), {"step": 0}, {"x": 1}
        )
        made = [checkpoint({"x": n, "messages": [HumanMessage(f"{n}", id="1")]}) for n in range(12)]
        await asyncio.gather(
            *(saver.aput(parent, one, {"step": 1}, one["channel_versions"]) for one in made),
            *(saver.aput_writes(parent, [("x", n)], f"task-{n}") for n in range(12)),
        )
        found = [one async for one in saver.alist(thread("t"))]
        assert sorted(one.checkpoint["channel_values"]["x"] for one in found) == [0, *range(12)]
        assert len(found[-1].pending_writes or []) == 12

    asyncio.run(go())
    assert adapter_store.admin.verify().defects == []


def test_a_thread_that_was_deleted_and_made_again_elsewhere(store_url: str) -> None:
    with Store.open(store_url) as store:
        ours, theirs = LedgerSaver(store), LedgerSaver(store)
        said = [HumanMessage("hello", id="1")]
        first = put(ours, thread("t"), {"messages": said, "x": 1})
        theirs.delete_thread("t")
        put(theirs, thread("t"), {"messages": [HumanMessage("other", id="2")]})
        # As many commits as before; what ours would point at is gone.
        made = checkpoint({"messages": said, "x": 2})
        made["channel_versions"] = {"messages": 1, "x": 2}
        last = ours.put(first, made, {"source": "loop", "step": 1}, {"x": 2})
        for saver in (ours, LedgerSaver(store)):
            assert values(saver, last) == {"messages": said, "x": 2}
        assert store.admin.verify("t").ok


def test_a_session_that_was_made_before(adapter_store: Store) -> None:
    adapter_store.sessions.create(id="t", title="Oslo")
    saver = LedgerSaver(adapter_store)
    config = put(saver, thread("t"), {"x": 1})
    put(saver, config, {"x": 2})
    assert values(saver, thread("t")) == {"x": 2}
    session = adapter_store.sessions.get("t")
    assert session is not None
    assert session.title == "Oslo"


@pytest.mark.parametrize("foreign", [[], ["before"]])
def test_going_back_to_where_nothing_was_said(adapter_store: Store, foreign: list[str]) -> None:
    def shown() -> list[str]:
        return [message.text for message in adapter_store.messages.history("t")]

    for text in foreign:
        adapter_store.messages.append("t", {"role": "user", "content": text}, create=True)
    saver = LedgerSaver(adapter_store)
    first = put(saver, thread("t"), {"x": 1})
    put(saver, first, {"x": 1, "messages": [HumanMessage("once", id="1")]})
    assert shown() == [*foreign, "once"]
    again = put(LedgerSaver(adapter_store), first, {"x": 2})
    assert shown() == foreign
    put(saver, again, {"x": 2, "messages": [HumanMessage("anew", id="2")]})
    assert shown() == [*foreign, "anew"]
    assert values(LedgerSaver(adapter_store), thread("t"))["messages"] == [
        HumanMessage("anew", id="2")
    ]
    assert adapter_store.admin.verify("t").ok
