"""What others do to a thread while a saver knows it: deleting, amending, writing, pruning."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from ledgerstone import Store, formats, user
from ledgerstone.adapters.langgraph import LedgerSaver, threads, upkeep
from ledgerstone.adapters.langgraph.context import SaverContext
from ledgerstone.adapters.langgraph.messages import OPAQUE
from ledgerstone.adapters.langgraph.reading import stored_of
from ledgerstone.adapters.langgraph.threads import THREAD_KEY, session_id
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.errors import Corrupt
from tests.adapters.langgraph.graphs import thread
from tests.adapters.langgraph.puts import checkpoint, put, values
from tests.formats.natives_langchain import NATIVES

ODD_NAME = "a\nb"
"""No id can be so: the session of such a thread has another name."""


def said(saver: LedgerSaver, ns: str = "") -> list[Any]:
    return [one.content for one in values(saver, thread("t", checkpoint_ns=ns))["messages"]]


def listed(saver: LedgerSaver) -> list[list[Any]]:
    found = [one.checkpoint["channel_values"] for one in saver.list(thread("t"))]
    return [[message.content for message in one["messages"]] for one in found]


def node_of(store: Store, text: str) -> str:
    """The node of the message that says a text."""
    nodes = store.nodes.iter("t", kind="message")
    [found] = [node.id for node in nodes if node.body["parts"] == [{"type": "text", "text": text}]]
    return found


@pytest.mark.parametrize("reads", ["one", "list"])
def test_who_only_reads_sees_what_was_deleted_and_amended(adapter_store: Store, reads: str) -> None:
    """A saver that knows a thread, but has not written it, or only lists it, believes no copy."""
    messages: list[BaseMessage] = [HumanMessage(text, id=text) for text in ("a", "secret", "b")]
    put(LedgerSaver(adapter_store), thread("t"), {"messages": messages})
    reader = LedgerSaver(adapter_store)

    def seen() -> list[Any]:
        return said(reader) if reads == "one" else listed(reader)[0]

    assert seen() == ["a", "secret", "b"]
    adapter_store.messages.delete(node_of(adapter_store, "secret"), session="t")
    assert seen() == ["a", "b"]
    adapter_store.messages.amend(node_of(adapter_store, "b"), session="t", parts=["c"])
    assert seen() == ["a", "c"]


def test_a_list_shows_what_was_deleted_after_a_put(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    messages: list[BaseMessage] = [HumanMessage(text, id=text) for text in ("a", "secret")]
    put(saver, thread("t"), {"messages": messages})
    adapter_store.messages.delete(node_of(adapter_store, "secret"), session="t")
    assert listed(saver) == [["a"]]


@pytest.mark.parametrize("gone", [1, 2])
@pytest.mark.parametrize("erased", [False, True])
def test_a_list_beside_the_conversation_whose_beginning_was_deleted(
    adapter_store: Store, gone: int, erased: bool
) -> None:
    """What stood before it belongs to another list, and must not come in."""
    saver = LedgerSaver(adapter_store)
    put(saver, thread("t"), {"messages": [HumanMessage("outer", id="0")]})
    inner = [HumanMessage(f"inner {n}", id=f"i{n}") for n in range(3)]
    put(saver, thread("t", checkpoint_ns="sub:1"), {"messages": inner})
    doomed = [node_of(adapter_store, f"inner {n}") for n in range(gone)]
    for id in doomed[: 1 if erased else gone]:
        adapter_store.messages.delete(id, session="t")
    if erased:
        adapter_store.admin.vacuum("t")
        adapter_store.messages.delete(doomed[-1], session="t")
    wanted = [f"inner {n}" for n in range(gone, 3)]
    assert said(LedgerSaver(adapter_store), "sub:1") == wanted


def test_a_message_that_was_amended_to_nothing(adapter_store: Store) -> None:
    """It is no message any more: the others keep their places, and the thread goes on."""
    blocks: list[Any] = [{"type": "text", "text": text, "index": 1} for text in "xy"]
    first: list[BaseMessage] = [AIMessage(content=blocks, id="0"), HumanMessage("a", id="1")]
    put(LedgerSaver(adapter_store), thread("t"), {"messages": first})
    amended = adapter_store.messages.history("t")[0]
    adapter_store.messages.amend(amended.id, session="t", parts=[])
    saver = LedgerSaver(adapter_store)
    found = saver.get_tuple(thread("t"))
    assert found is not None
    held = found.checkpoint["channel_values"]["messages"]
    assert held == [HumanMessage("a", id="1")]
    put(saver, found.config, {"messages": [*held, AIMessage("b", id="2")]})
    assert said(saver) == said(LedgerSaver(adapter_store)) == ["a", "b"]
    assert [one.text for one in adapter_store.messages.history("t")] == ["", "a", "b"]


def test_what_is_said_while_a_thread_is_pruned_stays(
    adapter_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver, other = LedgerSaver(adapter_store), LedgerSaver(adapter_store)
    config = put(saver, thread("t"), {"messages": [HumanMessage("a", id="1")]})
    config = put(saver, config, {"messages": [HumanMessage("b", id="2")]})
    late = [HumanMessage("b", id="2"), AIMessage("c", id="3")]

    def overtaken(node: Any) -> Any:
        if len(late) == 2:
            put(other, config, {"messages": [late[0], late.pop()]})
        return stored_of(node)

    monkeypatch.setattr(upkeep, "stored_of", overtaken)
    saver.prune(["t"])
    monkeypatch.undo()
    assert len(late) == 1
    assert said(LedgerSaver(adapter_store)) == ["b", "c"]
    assert adapter_store.admin.verify().defects == []


def test_a_list_stays_whole_when_its_last_message_is_also_written_alone(
    adapter_store: Store,
) -> None:
    saver = LedgerSaver(adapter_store)
    root = put(saver, thread("t"), {"n": 1})
    line = [HumanMessage(text, id=text) for text in ("a", "b", "c")]
    kept = put(saver, root, {"messages": line})
    saver.put_writes(kept, [("last", line[-1])], "task")
    # The conversation goes on elsewhere, so that nothing but that checkpoint shows the list.
    put(saver, root, {"messages": [HumanMessage("other", id="o")]}, run_id="doomed")
    saver.delete_for_runs(["doomed"])
    for one in (saver, LedgerSaver(adapter_store)):
        assert [message.content for message in values(one, kept)["messages"]] == ["a", "b", "c"]


def test_deleting_a_run_does_not_read_each_list(
    adapter_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver, config = LedgerSaver(adapter_store), thread("t")
    messages: list[BaseMessage] = []
    for n in range(12):
        messages.append(HumanMessage(str(n), id=str(n)))
        config = put(saver, config, {"messages": list(messages)}, run_id=f"run-{n}")
    read, lists = SaverContext.read, list[ReadMessages]()

    async def counted(core: SaverContext, *queries: Any) -> Any:
        lists.extend(one for one in queries if isinstance(one, ReadMessages))
        return await read(core, *queries)

    monkeypatch.setattr(SaverContext, "read", counted)
    # One that knows nothing of the thread: what a saver knows is not read at all.
    saver = LedgerSaver(adapter_store)
    saver.delete_for_runs(["run-3"])
    # Twelve checkpoints end at twelve messages, all of which are on the way to the last one.
    assert lists == []
    assert len(listed(saver)) == 11
    assert said(saver) == [str(n) for n in range(12)]


def test_more_threads_than_are_known_at_once(
    adapter_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A put that was overtaken reads anew, also when its thread was forgotten meanwhile."""
    monkeypatch.setattr(threads, "THREADS_MAX", 0)
    saver, other = LedgerSaver(adapter_store), LedgerSaver(adapter_store)
    read_head, overtaking = saver._writer._head, [1]

    async def overtaken(*given: Any) -> Any:
        head = await read_head(*given)
        if overtaking:
            put(other, thread("t"), {"x": overtaking.pop()})
        return head

    monkeypatch.setattr(saver._writer, "_head", overtaken)
    put(saver, thread("t"), {"x": 2})
    found = [one.checkpoint["channel_values"]["x"] for one in saver.list(thread("t"))]
    assert sorted(found) == [1, 2]


def test_a_put_that_comes_late_does_not_change_what_is_shown(adapter_store: Store) -> None:
    """Of a run that was cancelled, say, while the next one has begun already."""
    saver = LedgerSaver(adapter_store)
    asked = [HumanMessage("a", id="1")]
    parent = put(saver, thread("t"), {"messages": asked})
    late = checkpoint({"messages": [*asked, AIMessage("given up", id="2")]})
    last = put(saver, parent, {"messages": [*asked, AIMessage("b", id="3")]})
    made = saver.put(parent, late, {"source": "loop", "step": 1}, late["channel_versions"])
    for one in (saver, LedgerSaver(adapter_store)):
        assert said(one) == ["a", "b"]
        assert [m.content for m in values(one, made)["messages"]] == ["a", "given up"]
    assert [one.text for one in adapter_store.messages.history("t")] == ["a", "b"]
    held = values(saver, last)["messages"]
    put(saver, last, {"messages": [*held, HumanMessage("c", id="4")]})
    assert [one.text for one in adapter_store.messages.history("t")] == ["a", "b", "c"]
    assert adapter_store.admin.verify().defects == []


def test_a_copy_keeps_the_metadata_of_its_session(adapter_store: Store) -> None:
    saver, sessions = LedgerSaver(adapter_store), adapter_store.sessions
    put(saver, thread(ODD_NAME), {"x": 1})
    source = session_id(ODD_NAME)
    sessions.update(source, metadata={THREAD_KEY: ODD_NAME, "mine": 1})
    for name, more in (("plain", {}), ("c\nd", {THREAD_KEY: "c\nd"})):
        saver.copy_thread(ODD_NAME, name)
        copied = sessions.get(session_id(name))
        assert copied is not None
        assert copied.metadata == {"mine": 1, **more}


STRANGE: dict[str, Any] = {
    "no-base64": {OPAQUE: ["msgpack", "a"]},
    "no-msgpack": {OPAQUE: ["msgpack", "wf8="]},
    "no-json": {OPAQUE: ["json", "ew=="]},
    "no-kind": {OPAQUE: ["odd", "AAAA"]},
    "no-text": {"native": ["langchain", "", {"data": {"content": 5}}]},
    "no-class": {"native": ["langchain", "", {"type": "odd"}]},
    "no-fields": {"native": ["langchain", "", {"data": ["v", 3]}]},
    "no-call": {"native": ["langchain", "ai:", {"data": {"tool_calls": ["v", [{"x": 1}]]}}]},
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_message_that_cannot_be_read_is_named(adapter_store: Store, name: str) -> None:
    adapter_store.sessions.ensure("t")
    fine, strange = user("fine"), user("hello", extra=STRANGE[name])
    adapter_store.messages.append("t", *formats.keep_all("langchain", NATIVES[:2]), fine, strange)
    with pytest.raises(Corrupt, match=adapter_store.messages.last("t", 1)[0].id):
        LedgerSaver(adapter_store).adopt("t")


@pytest.mark.parametrize("extra", [{OPAQUE: {"run": 1}}, {"native": {"a": 1}}, {"native": 5}])
def test_words_of_others_are_not_taken_for_ours(adapter_store: Store, extra: Any) -> None:
    adapter_store.sessions.ensure("t")
    adapter_store.messages.append("t", user("hello", extra=extra))
    saver = LedgerSaver(adapter_store)
    found = saver.adopt("t")
    assert found is not None
    put(saver, found.config, {"messages": found.checkpoint["channel_values"]["messages"]})
    saver.prune(["t"])
    assert said(LedgerSaver(adapter_store)) == ["hello"]
