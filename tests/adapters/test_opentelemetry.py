"""Spans of a real tracer become traces of their sessions; none is lost in silence."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExportResult,
)
from opentelemetry.trace import Link, SpanKind, Status, StatusCode, Tracer

from ledgerstone import AsyncStore, InvalidValue, Store, user
from ledgerstone.adapters.opentelemetry import LedgerSpanExporter, is_content


@pytest.fixture(params=["sqlite", "file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {
        "sqlite": str(tmp_path / "store.db"),
        "file": f"file://{tmp_path}/store",
        "memory": "memory://",
    }
    with Store.open(urls[request.param]) as opened:
        yield opened


def tracing(exporter: LedgerSpanExporter, *, batch: bool = False) -> tuple[TracerProvider, Tracer]:
    provider = TracerProvider(resource=Resource({"service.name": "bot"}), shutdown_on_exit=False)
    processor = BatchSpanProcessor(exporter) if batch else SimpleSpanProcessor(exporter)
    provider.add_span_processor(processor)
    return provider, provider.get_tracer("tests", "1.0")


def spans_of(names: list[str], **attributes: Any) -> list[ReadableSpan]:
    """Finished spans of a real tracer, as an exporter gets them."""
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("tests")
    made: list[ReadableSpan] = []
    for name in names:
        span = tracer.start_span(name, attributes=attributes)
        span.end()
        assert isinstance(span, ReadableSpan)
        made.append(span)
    return made


def test_a_span_becomes_an_event(store: Store) -> None:
    exporter = LedgerSpanExporter(store)
    provider, tracer = tracing(exporter)
    with tracer.start_as_current_span("other") as first:
        linked = first.get_span_context()
    with tracer.start_as_current_span("agent", attributes={"session.id": "s"}) as outer:
        with tracer.start_as_current_span(
            "chat model",
            kind=SpanKind.CLIENT,
            links=[Link(linked)],
            attributes={
                "ledgerstone.session": "s",
                "ledgerstone.run": "r1",
                "gen_ai.usage.prompt_tokens": 7,
                "ratio": float("nan"),
                "tags": ["a", "b"],
                "artifact_uri": "log:1",
            },
        ) as inner:
            inner.add_event("retry", {"after_s": 0.5})
        outer.set_status(Status(StatusCode.ERROR, "gave up"))
    provider.shutdown()
    (chat, agent) = store.traces.list("s")
    assert (chat.n, chat.event.kind, chat.event.name) == (1, "span", "chat model")
    assert (chat.event.success, agent.event.success) == (True, False)
    assert (chat.event.run_id, agent.event.run_id) == ("r1", None)
    assert chat.event.artifact_uris == ["log:1"]
    assert "gen_ai.usage.prompt_tokens" in chat.event.metadata_keys
    assert chat.event.at_us is not None
    details = chat.event.details
    assert details["parent_id"] == agent.event.details["span_id"]
    assert details["trace_id"] == agent.event.details["trace_id"]
    assert (details["span_kind"], details["scope"], details["service"]) == (
        "client",
        "tests",
        "bot",
    )
    assert details["attributes"]["gen_ai.usage.prompt_tokens"] == 7
    assert (details["attributes"]["ratio"], details["attributes"]["tags"]) == ("nan", ["a", "b"])
    assert details["events"][0]["name"] == "retry"
    assert details["events"][0]["attributes"] == {"after_s": 0.5}
    assert len(details["links"]) == 1
    assert (agent.event.details["status"], agent.event.details["reason"]) == ("error", "gave up")
    assert exporter.dropped == 1, "the span of no session"


def test_an_exception_is_kept_with_its_span(store: Store) -> None:
    provider, tracer = tracing(LedgerSpanExporter(store, session="s"))
    with pytest.raises(ZeroDivisionError), tracer.start_as_current_span("work"):
        _ = 1 / 0
    provider.shutdown()
    (entry,) = store.traces.list("s", kind="span")
    assert entry.event.success is False
    assert entry.event.details["events"][0]["attributes"]["exception.type"] == "ZeroDivisionError"


@pytest.mark.parametrize("batch", [False, True])
def test_many_spans_of_many_threads_and_sessions_all_arrive(store: Store, batch: bool) -> None:
    exporter = LedgerSpanExporter(store)
    provider, tracer = tracing(exporter, batch=batch)

    def work(worker: int) -> None:
        for n in range(25):
            with tracer.start_as_current_span(f"{worker}-{n}") as span:
                span.set_attribute("gen_ai.conversation.id", f"s{n % 3}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert provider.force_flush()
    provider.shutdown()
    found = [entry.event.name for n in range(3) for entry in store.traces.list(f"s{n}")]
    assert sorted(found) == sorted(f"{worker}-{n}" for worker in range(4) for n in range(25))
    assert (exporter.dropped, exporter.failed) == (0, 0)


def test_the_first_name_of_a_session_wins(store: Store) -> None:
    exporter = LedgerSpanExporter(store, session="default")
    names = ["gen_ai.conversation.id", "session.id", "ledgerstone.session"]
    for count in range(4):
        attributes = {name: name for name in names[:count]}
        assert exporter.export(spans_of(["x"], **attributes)) is SpanExportResult.SUCCESS
    for session in ("default", *names):
        assert len(store.traces.list(session)) == 1


def test_what_was_said_is_left_out_and_its_keys_stay(store: Store) -> None:
    said = {
        "gen_ai.input.messages": "secret",
        "gen_ai.output.messages": "secret",
        "gen_ai.system_instructions": "secret",
        "gen_ai.prompt.0.content": "secret",
        "gen_ai.completion": ["secret"],
        "llm.prompts": "artifact:secret",
        "input.value": "secret",
        "gen_ai.tool.call.arguments": "secret",
    }
    plain = {"gen_ai.usage.completion_tokens": 9, "gen_ai.request.model": "m-1"}
    spans = spans_of(["chat"], **said, **plain)
    LedgerSpanExporter(store, session="s").export(spans)
    LedgerSpanExporter(store, session="all", leave_out=lambda key, value: False).export(spans)
    (kept,), (whole,) = (store.traces.load(name) or [] for name in ("s", "all"))
    assert kept.details["attributes"] == plain
    assert kept.artifact_uris == []
    assert kept.metadata_keys == sorted([*said, *plain])
    assert whole.details["attributes"] == {**said, **plain}
    assert not is_content("gen_ai.usage.prompt_tokens", 5)


def test_the_same_spans_again_are_not_added_twice(store: Store) -> None:
    exporter, spans = LedgerSpanExporter(store, session="s"), spans_of(["a", "b"])
    for _ in range(3):
        assert exporter.export(spans) is SpanExportResult.SUCCESS
    assert [entry.event.name for entry in store.traces.list("s")] == ["a", "b"]
    assert exporter.export(spans_of(["a", "b"])) is SpanExportResult.SUCCESS
    assert len(store.traces.list("s")) == 4


def test_what_the_store_refuses_is_a_failure_and_counted(store: Store) -> None:
    store.messages.append("gone", user("hi"), create=True)
    store.sessions.delete("gone")
    exporter = LedgerSpanExporter(store)
    spans = [
        *spans_of(["a", "b"], **{"session.id": "gone"}),
        *spans_of(["c"], **{"session.id": "fine"}),
    ]
    assert exporter.export(spans) is SpanExportResult.FAILURE
    assert (exporter.dropped, exporter.failed) == (0, 2)
    assert len(store.traces.list("fine")) == 1
    store.close()
    assert exporter.export(spans_of(["d"], **{"session.id": "fine"})) is SpanExportResult.FAILURE
    exporter.shutdown()
    assert exporter.export(spans_of(["e"], **{"session.id": "fine"})) is SpanExportResult.FAILURE
    assert exporter.failed == 4


def test_odd_spans_never_raise(store: Store) -> None:
    exporter = LedgerSpanExporter(store, session="s")
    odd = ["", "\x00", "x" * 5000, "two\nlines", "na\u00efve \u2603"]
    assert exporter.export(spans_of(odd)) is SpanExportResult.SUCCESS
    assert exporter.export(spans_of(["bad session"], **{"session.id": "a\x00b"}))
    assert exporter.dropped == 1
    names = [entry.event.name for entry in store.traces.list("s")]
    assert names == ["unnamed", "unnamed", "x" * 1024, "two lines", "na\u00efve \u2603"]


def test_only_a_blocking_store_is_taken() -> None:
    store: Any = object.__new__(AsyncStore)
    with pytest.raises(InvalidValue, match="blocking Store"):
        LedgerSpanExporter(store)


def test_a_missing_sdk_is_named_with_its_extra() -> None:
    code = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "import ledgerstone\n"
        "try:\n    import ledgerstone.adapters.opentelemetry\n"
        "except ImportError as error:\n    print(error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "ledgerstone[otel]" in ran.stdout
