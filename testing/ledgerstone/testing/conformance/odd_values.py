"""Odd values: what every backend gives back exactly, and what every backend refuses."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import Store, tool_call, user
from ledgerstone.codec import BODY_BYTES_MAX, DEPTH_MAX, parse_strict
from ledgerstone.errors import InvalidValue, Misuse
from ledgerstone.records.nodes import Node
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.bad_input import Call, Refusing


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# Values that every backend gives back exactly, though many encodings lose them.
KEPT: dict[str, Any] = {
    "lone surrogates": "\ud800 \udfff",
    "a surrogate pair in halves": "\ud83d\ude00"[0] + "x" + "\ud83d\ude00"[-1],
    "NUL": "a\x00b",
    "controls": "".join(map(chr, range(32))),
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "not normalised": "e\u0301 \u212b",
    "2^53 + 1": 2**53 + 1,
    "2^63": 2**63,
    "-2^63 - 1": -(2**63) - 1,
    "2^64": 2**64,
    "10^400": 10**400,
    "-0.0": -0.0,
    "1e308": 1e308,
    "5e-324": 5e-324,
    "0.1": 0.1,
    "true is not one": [True, 1, 1.0],
    "odd keys": {"$set": 1, "a.b": 2, "": 3, "__proto__": 4, "\ud800": 5, "a\x00": 6},
    "key order": {"b": 1, "a": 2},
    "the deepest": _deep(DEPTH_MAX - 3),
    "empty": [[], {}, ""],
}
REFUSED: dict[str, Any] = {
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
    "too deep": _deep(DEPTH_MAX + 1),
    "bytes": b"x",
    "a set": {1},
    "an object": object(),
    "a key that is no text": {1: 2},
}

MIB = 1 << 20
# Where a value of any length may be given.
TOO_LONG: dict[str, Callable[[Store, list[str]], Any]] = {
    "texts": lambda s, long: s.messages.append("s", user(list(long))),
    "a message's metadata": lambda s, long: s.messages.append("s", user("x", metadata={"v": long})),
    "a tool's answer": lambda s, long: s.turns.begin("s").tool("c", {"v": [long]}),
    "arguments": lambda s, long: s.turns.begin("s").assistant([tool_call("t", {"v": long})]),
    "a node": lambda s, long: s.nodes.append("s", Node(kind="event", body=[{"v": long}])),
    "state": lambda s, long: s.turns.begin("s").state(v=long),
    "a config": lambda s, long: s.turns.begin("s").head(config=long),
    "a value": lambda s, long: s.turns.begin("s").value(long),
    "work": lambda s, long: s.work.enqueue("s", long),
    "a run": lambda s, long: s.runs.create("s", input=long),
    "a session": lambda s, long: s.sessions.update("s", metadata={"v": long}),
    "a memory": lambda s, long: s.memories.put(("a",), "k", {"v": long}),
}


class TestOddValues(Refusing):
    @pytest.mark.parametrize("name", KEPT)
    def test_it_comes_back_exactly(self, backend: Bed, name: str) -> None:
        value = KEPT[name]
        with backend.store.turns.begin("s", create=True) as turn:
            turn.user(value if isinstance(value, str) else "x", id="m1", metadata={"v": value})
            turn.assistant([tool_call("t", {"v": value}, id="c")], id="m2")
            turn.node("event", value, id="n")
            turn.note("n", "k", value)
            turn.state(v=value)
            turn.head(config=value)
        backend.reopen()
        store = backend.store
        first, second = store.messages.history("s")
        node = store.nodes.get("s", "n", notes=True)
        head = store.sessions.head("s")
        assert node is not None
        assert node.notes is not None
        assert head is not None
        if isinstance(value, str):
            assert first.text == value
        found = [
            first.metadata["v"],
            second.tool_calls[0].arguments["v"],
            node.body,
            node.notes["k"].body,
            store.sessions.state("s")["v"],
            head.config,
        ]
        for copy in found:
            assert same(copy, value), (copy, value)
        assert store.admin.verify("s").ok

    @pytest.mark.parametrize("name", ["2^64", "10^400", "-0.0", "1e308", "lone surrogates", "NUL"])
    def test_metadata_of_a_session_comes_back_exactly(self, backend: Bed, name: str) -> None:
        backend.store.sessions.create(id="s", metadata={"v": KEPT[name]})
        backend.reopen()
        found = backend.store.sessions.get("s")
        assert found is not None
        assert same(found.metadata, {"v": KEPT[name]})
        listed = backend.store.sessions.list(metadata_equals={"v": KEPT[name]})
        assert [session.id for session in listed] == ["s"]

    @pytest.mark.parametrize("name", REFUSED)
    def test_it_is_refused_wherever_it_may_stand(
        self, backend: Bed, session: str, name: str
    ) -> None:
        bad = REFUSED[name]
        calls: dict[str, Call] = {
            "metadata": lambda s: s.messages.append("s", user("x", metadata={"v": bad})),
            "arguments": lambda s: s.turns.begin("s").assistant([tool_call("t", {"v": bad})]),
            "body": lambda s: s.turns.begin("s").node("k", bad),
            "state": lambda s: s.turns.begin("s").state(v=bad),
            "config": lambda s: s.turns.begin("s").head(config=bad),
            "payload": lambda s: s.work.enqueue("s", bad),
            "input": lambda s: s.runs.create("s", input=bad),
        }
        for field, call in calls.items():
            assert self.refused(backend, call).field.startswith(field)
        error = self.refused(backend, lambda s: s.sessions.update("s", metadata={"v": bad}))
        assert error.field.startswith("metadata")

    def test_a_body_of_16_mib_is_kept_and_one_byte_more_refused(
        self, backend: Bed, session: str
    ) -> None:
        longest = "x" * (BODY_BYTES_MAX - 2)  # the quotes count
        backend.store.nodes.append("s", Node(id="big", kind="event", body=longest))
        node = backend.store.nodes.get("s", "big")
        assert node is not None
        assert node.body == longest
        error = self.refused(
            backend, lambda s: s.nodes.append("s", Node(kind="event", body=longest + "x"))
        )
        assert error.field == "body"

    def test_a_message_of_more_than_16_mib_is_refused(self, backend: Bed, session: str) -> None:
        error = self.refused(
            backend, lambda s: s.messages.append("s", user("x" * (BODY_BYTES_MAX + 1)))
        )
        assert error.field == "message"

    @pytest.mark.parametrize("way", TOO_LONG)
    def test_what_is_far_too_long_is_refused_before_it_is_encoded(
        self, backend: Bed, session: str, way: str
    ) -> None:
        """A gigabyte would take seconds and as much memory again."""
        shared = ["x" * MIB] * 128
        tracemalloc.start()
        try:
            error = self.refused(backend, lambda s: TOO_LONG[way](s, shared))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert f"at most {BODY_BYTES_MAX} allowed" in str(error)
        assert peak < 8 * MIB


class TestJsonFromOutside:
    """The strict parser: what it lets in is what a body may hold."""

    @pytest.mark.parametrize(
        "text",
        [
            "NaN",
            "[Infinity]",
            '{"a": -Infinity}',
            "1e999",
            '{"a": 1, "a": 2}',
            '{"a": {"b": 1, "b": 1}}',
            "[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1),
            "[" * 200_000,
            '"' + "x" * BODY_BYTES_MAX + '"',
            "",
            "{",
            "{'a': 1}",
            "[1,]",
            "\ufeff1",
        ],
        ids=lambda text: text[:12],
    )
    def test_it_is_refused_with_the_field(self, text: str) -> None:
        with pytest.raises(InvalidValue) as caught:
            parse_strict(text, "payload")
        assert caught.value.field.startswith("payload")

    def test_what_is_json_is_read_exactly(self) -> None:
        for name, value in KEPT.items():
            assert same(parse_strict(json.dumps(value), "payload"), value), name

    def test_misuse_is_one_class_for_callers(self) -> None:
        assert issubclass(InvalidValue, Misuse)


def same(one: Any, other: Any) -> bool:
    """Equal to the last bit and type: True is not 1, 0.0 is not -0.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)
