"""What may be stored and revived: nothing that nobody allowed, and nothing in the clear if so."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ledgerstone import Store
from ledgerstone.adapters.langgraph import LedgerSaver
from ledgerstone.errors import InvalidValue, NotSupported
from tests.adapters.langgraph.graphs import thread
from tests.adapters.langgraph.puts import put, values


@dataclass
class Mine:
    """A class that nobody allowed."""

    text: str


class MyMessage(AIMessage):
    """A message of a class of one's own."""

    mood: str = "calm"


def test_a_class_that_is_not_allowed_is_refused(adapter_store: Store) -> None:
    with pytest.raises(NotSupported, match=r"test_strict\.Mine at channel_values\.x"):
        put(LedgerSaver(adapter_store), thread("t"), {"x": Mine("a")})
    assert LedgerSaver(adapter_store).get_tuple(thread("t")) is None, "nothing is stored"
    loose = LedgerSaver(adapter_store, allow=[Mine])
    put(loose, thread("t"), {"x": Mine("a")})
    assert values(loose, thread("t"))["x"] == Mine("a")
    with pytest.raises(NotSupported, match=r"reviving .*test_strict\.Mine"):
        LedgerSaver(adapter_store).get_tuple(thread("t"))
    grown = LedgerSaver(adapter_store).with_allowlist([(Mine.__module__, "Mine")])
    assert values(grown, thread("t"))["x"] == Mine("a")


def test_a_message_of_ones_own_class(adapter_store: Store) -> None:
    message = MyMessage(content="hello", id="1", mood="glad")
    with pytest.raises(NotSupported):
        put(LedgerSaver(adapter_store), thread("t"), {"messages": [message]})
    saver = LedgerSaver(adapter_store, allow=[MyMessage])
    put(saver, thread("t"), {"messages": [message]})
    cold = LedgerSaver(adapter_store, allow=[MyMessage])
    found = values(cold, thread("t"))["messages"]
    assert (found, type(found[0])) == ([message], MyMessage)
    assert adapter_store.messages.last("t")[0].text == "hello"


class Shift:
    """A cipher that is good enough to see whether it was used."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "shift", bytes(255 - one for one in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "shift"
        return bytes(255 - one for one in ciphertext)


def test_a_serializer_that_encrypts_leaves_nothing_readable(adapter_store: Store) -> None:
    serde = EncryptedSerializer(Shift())
    saver = LedgerSaver(adapter_store, serde=serde)
    said = [HumanMessage("a secret", id="1"), AIMessage("is safe", id="2")]
    config = put(saver, thread("t"), {"messages": said[:1], "x": {"a": "secret"}})
    saver.put_writes(config, [("messages", said[1:]), ("x", "secret")], "task")
    put(saver, config, {"messages": said, "x": {"a": "secret"}})
    cold = LedgerSaver(adapter_store, serde=serde)
    assert values(cold, thread("t")) == {"messages": said, "x": {"a": "secret"}}
    kept = list(adapter_store.nodes.iter("t", notes=True, resolve=True))
    assert "secret" not in repr([(one.body, one.notes, one.resolved) for one in kept])
    assert len([one for one in kept if one.kind == "message"]) == 2, "each is stored once"


def test_what_cannot_be_stored_is_named(adapter_store: Store) -> None:
    with pytest.raises(InvalidValue, match=r"channel_values\.x"):
        put(LedgerSaver(adapter_store), thread("t"), {"x": {"a": [object()]}})
    pickling = LedgerSaver(adapter_store, serde=JsonPlusSerializer(pickle_fallback=True))
    with pytest.raises(NotSupported, match="pickle"):
        put(pickling, thread("t"), {"x": object()})
    tool = ToolMessage("fine", tool_call_id="c", artifact=object(), id="1")
    with pytest.raises(InvalidValue, match=r"messages\[0\]"):
        put(LedgerSaver(adapter_store), thread("t"), {"messages": [tool]})
    assert not adapter_store.sessions.exists("t")
