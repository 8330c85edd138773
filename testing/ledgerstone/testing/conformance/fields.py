"""What is inside a message: parts, metadata, usage and cost come back as they went in."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from ledgerstone import assistant, system, tool_call, tool_result, user
from ledgerstone.commands.nodes import GetNode
from ledgerstone.errors import InvalidValue
from ledgerstone.records.messages import FINISH_REASONS, Compaction, Message, MessageBody
from ledgerstone.records.parts import (
    AnyPart,
    Audio,
    Code,
    File,
    Image,
    Json,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Video,
)
from ledgerstone.records.usage import Cost, Usage, UsageEntry
from ledgerstone.testing.bed import Bed

__all__ = ["TestParts", "TestFields", "TestTotals", "TestOmission"]

TYPED: list[AnyPart] = [
    Text("hello"),
    Reasoning("hm", signature="sig"),
    ToolCall("c1", "search", {"q": "Oslo", "deep": [1, {"id": "kept", "timestamp": 5}]}),
    ToolResult("c1", [{"hit": 1}, None, True], name="search", is_error=True),
    Source(url="https://example.org", title="T", id="src", text="snippet"),
    File(url="https://example.org/f", media_type="text/plain", name="f.txt"),
    Image(data="aGk=", media_type="image/png", detail="high"),
    Audio(url="https://example.org/a.wav", transcript="hi"),
    Video(url="https://example.org/v"),
    Code("print(1)", language="python"),
    Json({"any": ["thing", 1.5, None]}),
]
UNKNOWN: list[dict[str, Any]] = [
    {"type": "hologram", "depth": {"z": [1, 2, 3]}, "on": True, "none": None},
    {"type": "text", "text": "known type, strange field", "cache_control": {"ttl": "5m"}},
    {"type": "tool-call", "id": 7, "name": ["not", "text"]},
    {"type": ""},
]


def stored(backend: Bed, message: Message) -> Message:
    """The message as a store that was opened again reads it."""
    backend.store.messages.append("s", message, create=True)
    return backend.reopen().messages.last("s", 1)[0]


class TestParts:
    """Typed parts, and parts nobody knows."""

    @pytest.mark.promise(57, 69)
    def test_every_type_of_part_round_trips_in_order(self, backend: Bed) -> None:
        assert stored(backend, assistant(TYPED)).parts == TYPED

    @pytest.mark.promise(57, 69)
    @pytest.mark.parametrize("part", TYPED, ids=lambda part: type(part).__name__)
    def test_a_part_may_come_as_a_dictionary(self, backend: Bed, part: AnyPart) -> None:
        plain = msgspec.to_builtins(part)
        assert stored(backend, assistant([plain])).parts == [part]

    @pytest.mark.promise(57)
    def test_the_type_tags_are_kebab_case(self, backend: Bed) -> None:
        backend.store.messages.append("s", assistant(TYPED), create=True)
        body = body_json(backend)
        assert [part["type"] for part in body["parts"]] == [
            "text", "reasoning", "tool-call", "tool-result", "source", "file",
            "image", "audio", "video", "code", "json",
        ]  # fmt: skip

    @pytest.mark.promise(57)
    @pytest.mark.parametrize("part", UNKNOWN, ids=lambda part: str(part["type"]))
    def test_an_unknown_part_stays_verbatim(self, backend: Bed, part: dict[str, Any]) -> None:
        message = stored(backend, assistant(["before", part, "after"]))
        assert message.parts == [Text("before"), part, Text("after")]
        assert body_json(backend)["parts"][1] == part

    @pytest.mark.promise(56, 57)
    def test_text_becomes_one_text_part(self, backend: Bed) -> None:
        message = stored(backend, user("hello"))
        assert (message.parts, message.text) == ([Text("hello")], "hello")

    @pytest.mark.promise(57)
    def test_a_message_may_have_no_parts_or_empty_ones(self, backend: Bed) -> None:
        assert stored(backend, assistant()).parts == []
        assert stored(backend, assistant("")).parts == [Text("")]
        assert stored(backend, assistant([Json(), "a", "", "b"])).text == "ab"

    @pytest.mark.promise(57, 69)
    def test_tool_calls_and_results_keep_what_links_them(self, backend: Bed) -> None:
        call = tool_call("pay", {"eur": 120, "id": 1}, id="c9")
        backend.store.messages.append(
            "s", assistant([call]), tool_result("c9", {"ok": 1}, tool_name="pay"), create=True
        )
        asked, answered = backend.reopen().messages.history("s")
        assert asked.tool_calls == [call]
        assert (answered.role, answered.body.tool_call_id) == ("tool", "c9")
        assert answered.body.tool_name == "pay"
        assert answered.parts == [ToolResult("c9", {"ok": 1}, "pay")]

    @pytest.mark.promise(57)
    @pytest.mark.parametrize("bad", [{"text": "no type"}, {"type": 3}, 7, [["nested"]], b"bytes"])
    def test_what_is_no_part_is_refused(self, backend: Bed, bad: Any) -> None:
        backend.store.sessions.create(id="s")
        with pytest.raises(InvalidValue):
            backend.store.messages.append("s", {"role": "user", "content": [bad]})
        assert backend.store.messages.count("s") == 0


class TestFields:
    """Everything beside the parts."""

    @pytest.mark.promise(56, 69)
    def test_the_four_roles_and_the_foreign_ones(self, backend: Bed) -> None:
        given = ["system", "user", "assistant", "tool", "developer", "human", "model", "function"]
        messages = [{"role": role, "content": role} for role in given]
        backend.store.messages.append("s", *messages, create=True)
        found = backend.reopen().messages.history("s")
        assert [m.role for m in found] == ["system", "user", "assistant", "tool"] * 2
        assert [m.body.origin_role for m in found] == [None] * 4 + given[4:]

    @pytest.mark.promise(56, 66, 69)
    def test_every_field_of_a_message_round_trips(self, backend: Bed) -> None:
        fields: dict[str, Any] = {
            "name": "ada",
            "tool_call_id": "c1",
            "tool_name": "search",
            "visibility": "internal",
            "model": "m-1",
            "provider": "p",
            "usage": Usage(10, 20, 3, 4, 5, 31),
            "cost": Cost(1_250_000, "EUR"),
            "finish_reason": "tool_calls",
            "duration_ms": 812,
            "completed_us": 1_700_000_000_000_123,
            "stats": {"tokens_per_s": 41.5},
            "metadata": {"custom": [1, "two", None], "id": "kept", "timestamp": 3},
            "step_index": 2,
            "parent_type": "user_message",
            "is_compaction": True,
            "is_summary": True,
            "compaction": Compaction("m1", "m0", "so far"),
            "extra": {"vendor": {"x": 1}},
        }
        message = stored(backend, assistant("hi", id="m9", run_id="r1", created_us=42, **fields))
        assert {name: getattr(message.body, name) for name in fields} == fields
        assert (message.id, message.run_id, message.created_us) == ("m9", "r1", 42)
        assert (message.session, message.role, message.text) == ("s", "assistant", "hi")
        assert (message.updated_us, message.deleted_us, message.version) == (None, None, 0)

    @pytest.mark.promise(56)
    def test_a_plain_message_has_the_defaults(self, backend: Bed) -> None:
        assert stored(backend, user("hi")).body == MessageBody(role="user", parts=[Text("hi")])

    @pytest.mark.promise(67)
    @pytest.mark.parametrize("reason", FINISH_REASONS)
    def test_every_finish_reason_round_trips(self, backend: Bed, reason: str) -> None:
        assert stored(backend, assistant("x", finish_reason=reason)).body.finish_reason == reason

    @pytest.mark.promise(67)
    def test_the_finish_reasons_are_these(self, backend: Bed) -> None:
        wanted = {"stop", "length", "tool_calls", "content_filter", "error"}
        assert wanted <= set(FINISH_REASONS)
        # A provider may invent another one; it is a fact about the answer and stays as given.
        odd = stored(backend, assistant("x", finish_reason="end_turn"))
        assert odd.body.finish_reason == "end_turn"

    @pytest.mark.promise(67)
    def test_money_is_in_dollars_unless_something_else_is_said(self, backend: Bed) -> None:
        message = stored(backend, assistant("x", cost=Cost(5)))
        assert message.body.cost == Cost(nano=5, currency="USD")

    @pytest.mark.promise(67, 69)
    def test_the_total_is_as_given_or_the_sum(self, backend: Bed) -> None:
        summed = stored(backend, assistant("x", usage=Usage(input=10, output=5, reasoning=3)))
        given = stored(backend, assistant("x", usage=Usage(input=10, output=5, total=99)))
        assert summed.usage is not None
        assert given.usage is not None
        assert (summed.usage.total_tokens, given.usage.total_tokens) == (15, 99)

    @pytest.mark.promise(67)
    @pytest.mark.parametrize(
        "usage", [{"input": 1.5}, {"input": "3"}, {"output": 1 << 62}, {"input": None}]
    )
    def test_token_counts_are_integers(self, backend: Bed, usage: dict[str, Any]) -> None:
        backend.store.sessions.create(id="s")
        with pytest.raises(InvalidValue):
            backend.store.messages.append("s", assistant("x", usage=usage))

    @pytest.mark.promise(69)
    def test_messages_without_an_id_get_one_that_grows_with_time(self, backend: Bed) -> None:
        backend.store.messages.append("s", *(user(str(n)) for n in range(9)), create=True)
        backend.store.messages.append("s", user("9"))
        ids = [m.id for m in backend.store.messages.history("s")]
        assert ids == sorted(ids)
        assert len(set(ids)) == 10

    @pytest.mark.promise(69)
    def test_a_system_message_and_an_internal_one_are_shown_like_others(self, backend: Bed) -> None:
        backend.store.messages.append(
            "s", system("be kind"), assistant("hidden", visibility="internal"), create=True
        )
        found = backend.store.messages.history("s")
        assert [(m.role, m.visibility) for m in found] == [
            ("system", "all"),
            ("assistant", "internal"),
        ]


class TestTotals:
    """Usage and cost are stored in every place that has a field for them."""

    @pytest.mark.promise(161)
    def test_usage_is_kept_on_the_message_the_run_and_the_session(self, backend: Bed) -> None:
        totals = {"total_cost": 0.25, "cost_records": [{"model": "m-1", "cost_usd": 0.25}]}
        backend.store.sessions.create(id="s", document=totals)
        usage = Usage(input=10, output=5, cached_input=2)
        with backend.store.turns.begin("s", run_id="r1") as turn:
            turn.assistant("hi", model="m-1", usage=usage, cost=Cost(250_000_000))
            turn.run("running", agent="guide", input_tokens=10, output_tokens=5, steps=1)
            turn.use("m-1", usage, cost=Cost(250_000_000))
        store = backend.reopen()
        (message,) = store.messages.history("s")
        run, head = store.runs.get("r1"), store.sessions.head("s")
        assert run is not None
        assert head is not None
        assert (message.usage, message.body.cost) == (usage, Cost(250_000_000))
        assert (run.input_tokens, run.output_tokens, run.steps) == (10, 5, 1)
        assert [(line.model, line.usage.input, line.usage.output) for line in head.ledger] == [
            ("m-1", 10, 5)
        ]
        document = store.sessions.document("s") or {}
        assert {name: document[name] for name in totals} == totals

    @pytest.mark.promise(161)
    def test_the_ledger_adds_up_by_source_and_model(self, backend: Bed) -> None:
        for model, source, count in (("a", "", 1), ("b", "", 10), ("a", "", 2), ("a", "tool", 5)):
            with backend.store.turns.begin("s", create=True) as turn:
                turn.use(model, Usage(input=count, output=count), source=source)
        head = backend.store.sessions.head("s")
        assert head is not None
        lines = [(e.model, e.source, e.usage.input, e.usage.total_tokens) for e in head.ledger]
        assert lines == [("a", "", 3, 6), ("b", "", 10, 20), ("a", "tool", 5, 10)]
        assert all(isinstance(line, UsageEntry) for line in head.ledger)


class TestOmission:
    """What is absent is not written."""

    @pytest.mark.promise(73)
    def test_absent_fields_and_empty_lists_are_left_out(self, backend: Bed) -> None:
        backend.store.messages.append("s", user("hi"), create=True)
        assert body_json(backend) == {"role": "user", "parts": [{"type": "text", "text": "hi"}]}
        backend.store.messages.append("s", assistant())
        assert body_json(backend) == {"role": "assistant"}

    @pytest.mark.promise(73)
    def test_absent_fields_of_a_session_are_left_out_of_its_json(self, backend: Bed) -> None:
        made = backend.store.sessions.create(id="s")
        plain = json.loads(msgspec.json.encode(made))
        assert {"id", "created_us", "updated_us"} <= set(plain)
        assert None not in plain.values()
        optional = {"user", "title", "model", "cwd", "metadata", "parent", "cause", "deleted_us"}
        assert not optional & set(plain)
        assert msgspec.json.decode(msgspec.json.encode(made), type=type(made)) == made

    @pytest.mark.promise(73)
    def test_json_without_the_optional_fields_reads_as_the_defaults(self, backend: Bed) -> None:
        body = msgspec.json.decode(b'{"role":"tool"}', type=MessageBody)
        assert body == MessageBody(role="tool")
        (made,) = backend.store.messages.append("s", {"role": "tool"}, create=True)
        assert made.body == body


def body_json(backend: Bed) -> dict[str, Any]:
    """The newest message as it is stored."""
    newest = backend.store.messages.last("s", 1)[0]
    node = backend.ask(GetNode(tenant="default", session="s", id=newest.id))
    assert node is not None
    body: dict[str, Any] = node.body
    return body
