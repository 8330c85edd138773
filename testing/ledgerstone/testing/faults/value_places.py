"""The places that take something from a user: how it is handed in, and how it is read back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ledgerstone.records.evidence import Check, Report, TraceEvent
from ledgerstone.records.messages import assistant, message, tool_call, tool_result, user
from ledgerstone.records.nodes import Node
from ledgerstone.records.usage import Usage

# Any stands for the store: what a place reads is there, or the read fails and says so.
Write = Callable[[Any, Any], object]
Read = Callable[[Any], Any]


class Place(msgspec.Struct, frozen=True):
    """One way in and the way out; `fields` begin the names that a refusal may blame."""

    fields: tuple[str, ...]
    write: Write
    read: Read


def _turn(store: Any, act: Callable[[Any], object]) -> None:
    with store.turns.begin("s") as turn:
        turn.user("beside it")
        act(turn)


def _approve(store: Any, value: Any, **edited: Any) -> None:
    """Ask, say yes and start: what is started must be what was asked, to the byte."""
    with store.turns.begin("s") as turn:
        turn.ask("c", tool="t", arguments=[value], id="k")
    store.tickets.resolve("k", "approve", by="ada", result=[value], **edited)
    store.executions.start("s", ticket="k", id="x")


def _node(store: Any) -> Any:
    return store.nodes.get("s", "n", notes=True)


def _report(store: Any) -> Any:
    return store.reports.load("s")[0]


JSON_PLACES: dict[str, Place] = {
    "message metadata": Place(
        ("metadata", "message"),
        lambda s, v: s.messages.append("s", user("x", id="m", metadata={"v": v})),
        lambda s: s.messages.get("m").metadata["v"],
    ),
    "message extra": Place(
        ("extra", "message"),
        lambda s, v: s.messages.append("s", user("x", id="m", extra={"v": v})),
        lambda s: s.messages.get("m").body.extra["v"],
    ),
    "tool arguments": Place(
        ("arguments", "message"),
        lambda s, v: s.messages.append("s", assistant([tool_call("t", v, id="c")], id="m")),
        lambda s: s.messages.get("m").tool_calls[0].arguments,
    ),
    "tool result": Place(
        ("content", "message", "parts"),
        lambda s, v: s.messages.append("s", tool_result("c", {"v": v}, id="m")),
        lambda s: s.messages.get("m").parts[0].content["v"],
    ),
    "tool result in a turn": Place(
        ("content", "message"),
        lambda s, v: _turn(s, lambda turn: turn.tool("c", {"v": v})),
        lambda s: s.messages.last("s", 1)[0].parts[0].content["v"],
    ),
    "part of another kind": Place(
        ("parts", "message"),
        lambda s, v: s.messages.append("s", assistant([{"type": "odd", "v": v}], id="m")),
        lambda s: s.messages.get("m").parts[0]["v"],
    ),
    "amendment": Place(
        ("metadata", "patch"),
        lambda s, v: s.messages.amend("first", session="s", metadata={"v": v}),
        lambda s: s.messages.get("first").metadata["v"],
    ),
    "node body": Place(
        ("body",),
        lambda s, v: s.nodes.append("s", Node(id="n", kind="k", body=v)),
        lambda s: _node(s).body,
    ),
    "node meta": Place(
        ("meta",),
        lambda s, v: s.nodes.append("s", Node(id="n", kind="k", meta={"v": v})),
        lambda s: _node(s).meta["v"],
    ),
    "note": Place(
        ("body",),
        lambda s, v: s.nodes.annotate("s", "first", {"k": v}),
        lambda s: s.nodes.notes("s", ["first"])["first"]["k"].body,
    ),
    "note in a turn": Place(
        ("body",),
        lambda s, v: _turn(s, lambda turn: turn.note("first", "k", v)),
        lambda s: s.nodes.notes("s", ["first"])["first"]["k"].body,
    ),
    "state": Place(
        ("state",),
        lambda s, v: _turn(s, lambda turn: turn.state(v=[v])),
        lambda s: s.sessions.state("s")["v"][0],
    ),
    "config": Place(
        ("config",),
        lambda s, v: _turn(s, lambda turn: turn.head(config={"v": v})),
        lambda s: s.sessions.head("s").config["v"],
    ),
    "frames": Place(
        ("frames",),
        lambda s, v: _turn(s, lambda turn: turn.head(frames=[v])),
        lambda s: s.sessions.head("s").frames[0],
    ),
    "checkpoint": Place(
        ("turn_state",),
        lambda s, v: _turn(s, lambda turn: turn.checkpoint(turn_state={"v": v})),
        lambda s: s.sessions.load("s").checkpoint.turn_state["v"],
    ),
    "session metadata": Place(
        ("metadata",),
        lambda s, v: s.sessions.update("s", metadata={"v": v}),
        lambda s: s.sessions.get("s").metadata["v"],
    ),
    "document": Place(
        ("document",),
        lambda s, v: s.sessions.update("s", document={"v": v}),
        lambda s: s.sessions.document("s")["v"],
    ),
    "run input": Place(
        ("input",),
        lambda s, v: s.runs.create("s", id="r", input=[v]),
        lambda s: s.runs.get("r").input.data[0],
    ),
    "run details": Place(
        ("details",),
        lambda s, v: _turn(s, lambda turn: turn.run("running", details={"v": v})),
        lambda s: s.runs.latest("s").details["v"],
    ),
    "run output": Place(
        ("output",),
        lambda s, v: _turn(s, lambda turn: turn.run("done", output={"v": v})),
        lambda s: s.runs.latest("s").output.data["v"],
    ),
    "approved arguments": Place(
        ("arguments", "ticket", "execution", "result"),
        _approve,
        lambda s: s.executions.get("x").arguments[0],
    ),
    "edited arguments": Place(
        ("arguments", "ticket", "execution", "result"),
        lambda s, v: _approve(s, 1, arguments={"v": v}),
        lambda s: s.executions.get("x").arguments["v"],
    ),
    "decision": Place(
        ("result", "arguments", "ticket", "execution"),
        _approve,
        lambda s: s.tickets.get("k").decision.result[0],
    ),
    "execution result": Place(
        ("result", "execution"),
        lambda s, v: s.executions.finish(
            s.executions.start("s", call_id="c", tool="t", id="x"), result=v
        ),
        lambda s: s.executions.get("x").result,
    ),
    "payload": Place(
        ("payload",),
        lambda s, v: s.work.enqueue("s", v),
        lambda s: s.work.list("s")[0].payloads[0],
    ),
    "artifact metadata": Place(
        ("metadata",),
        lambda s, v: s.artifacts.put("a", b"x", session="s", metadata=[v]),
        lambda s: s.artifacts.get("a", session="s").metadata[0],
    ),
    "trace details": Place(
        ("details", "trace", "event"),
        lambda s, v: s.traces.append("s", TraceEvent(kind="k", name="n", details=[v])),
        lambda s: s.traces.load("s")[0].details[0],
    ),
    "trace details in a turn": Place(
        ("details", "trace", "event"),
        lambda s, v: _turn(s, lambda turn: turn.trace({"kind": "k", "name": "n", "details": [v]})),
        lambda s: s.traces.load("s")[0].details[0],
    ),
    "memory": Place(
        ("value",),
        lambda s, v: s.memories.put(("a",), "k", v),
        lambda s: s.memories.get(("a",), "k").value,
    ),
    "memory in a turn": Place(
        ("value",),
        lambda s, v: _turn(s, lambda turn: turn.remember(("a",), "k", [v])),
        lambda s: s.memories.get(("a",), "k").value[0],
    ),
    "embedding metadata": Place(
        ("metadata",),
        lambda s, v: s.embeddings.put([1.0], id="e", metadata={"v": v}),
        lambda s: s.embeddings.get("e").metadata["v"],
    ),
}
TEXT_PLACES: dict[str, Place] = {
    "message text": Place(
        ("message", "parts"),
        lambda s, v: s.messages.append("s", user(v, id="m")),
        lambda s: s.messages.get("m").text,
    ),
    "message model": Place(
        ("model", "message"),
        lambda s, v: s.messages.append("s", assistant("x", id="m", model=v)),
        lambda s: s.messages.get("m").body.model,
    ),
    "message from a dictionary": Place(
        ("message", "parts"),
        lambda s, v: s.messages.append("s", message("developer", v, id="m")),
        lambda s: s.messages.get("m").text,
    ),
    "title": Place(
        ("title",),
        lambda s, v: s.sessions.update("s", title=v),
        lambda s: s.sessions.get("s").title,
    ),
    "cwd": Place(
        ("cwd",),
        lambda s, v: s.sessions.update("s", cwd=v),
        lambda s: s.sessions.get("s").cwd,
    ),
    "user": Place(
        ("user",),
        lambda s, v: s.sessions.create(id="new", user=v),
        lambda s: s.sessions.get("new").user,
    ),
    "app": Place(
        ("app",),
        lambda s, v: s.sessions.create(id="new", app=v),
        lambda s: s.sessions.get("new").app,
    ),
    "session id": Place(
        ("id", "session"),
        lambda s, v: s.sessions.create(id=v),
        lambda s: next(one.id for one in s.sessions.list(order="created") if one.id != "s"),
    ),
    "message id": Place(
        ("id",),
        lambda s, v: s.messages.append("s", {"role": "user", "content": "x", "id": v}),
        lambda s: s.messages.last("s", 1)[0].id,
    ),
    "label": Place(
        ("label",),
        lambda s, v: s.nodes.append("s", Node(id="n", kind="k", label=v)),
        lambda s: _node(s).label,
    ),
    "kind": Place(
        ("kind",),
        lambda s, v: s.nodes.append("s", Node(id="n", kind=v)),
        lambda s: _node(s).kind,
    ),
    "note key": Place(
        ("key",),
        lambda s, v: s.nodes.annotate("s", "first", {v: 1}),
        lambda s: next(iter(s.nodes.notes("s", ["first"])["first"])),
    ),
    "branch": Place(
        ("branch", "name"),
        lambda s, v: s.branches.create("s", v, at="first"),
        lambda s: next(one.name for one in s.branches.list("s") if one.name != "main"),
    ),
    "run agent": Place(
        ("agent",),
        lambda s, v: s.runs.create("s", id="r", agent=v),
        lambda s: s.runs.get("r").agent,
    ),
    "run agent in a turn": Place(
        ("agent", "run"),
        lambda s, v: _turn(s, lambda turn: turn.run("running", agent=v)),
        lambda s: s.runs.latest("s").agent,
    ),
    "lease owner": Place(
        ("owner",),
        lambda s, v: s.leases.take("s", owner=v, ttl_s=60),
        lambda s: s.leases.get("s").owner,
    ),
    "source key": Place(
        ("key",),
        lambda s, v: s.work.enqueue("s", 1, key=v),
        lambda s: s.work.list("s")[0].source_key,
    ),
    "attachment": Place(
        ("uri",),
        lambda s, v: s.attachments.intent("s", "a", v),
        lambda s: s.attachments.get("s", "a").uri,
    ),
    "artifact name": Place(
        ("name",),
        lambda s, v: s.artifacts.put(v, b"x", session="s"),
        lambda s: s.artifacts.list(session="s")[0].name,
    ),
    "artifact uri": Place(
        ("uri",),
        lambda s, v: s.artifacts.put("a", b"x", session="s", uri=v),
        lambda s: s.artifacts.get("a", session="s").uri,
    ),
    "artifact tool": Place(
        ("tool",),
        lambda s, v: s.artifacts.put("a", b"x", session="s", tool=v),
        lambda s: s.artifacts.get("a", session="s").tool,
    ),
    "trace name": Place(
        ("name", "trace", "event"),
        lambda s, v: s.traces.append("s", TraceEvent(kind="k", name=v)),
        lambda s: s.traces.load("s")[0].name,
    ),
    "report subject": Place(
        ("subject", "report"),
        lambda s, v: s.reports.append("s", Report(subject=v)),
        lambda s: _report(s).subject,
    ),
    "report risk": Place(
        ("residual_risks", "report"),
        lambda s, v: s.reports.append("s", Report(subject="x", residual_risks=[v])),
        lambda s: _report(s).residual_risks[0],
    ),
    "check description": Place(
        ("checks", "description", "report"),
        lambda s, v: s.reports.append(
            "s", Report(subject="x", checks=[Check(id="c", description=v)])
        ),
        lambda s: _report(s).checks[0].description,
    ),
    "memory namespace": Place(
        ("namespace",),
        lambda s, v: s.memories.put(("a", v), "k", 1),
        lambda s: s.memories.search()[0].namespace[1],
    ),
    "memory key": Place(
        ("key",),
        lambda s, v: s.memories.put(("a",), v, 1),
        lambda s: s.memories.search()[0].key,
    ),
    "embedding id": Place(
        ("id",),
        lambda s, v: s.embeddings.put([1.0], id=v),
        lambda s: s.embeddings.search([1.0])[0].embedding.id,
    ),
    "embedding model": Place(
        ("model",),
        lambda s, v: s.embeddings.put([1.0], id="e", model=v),
        lambda s: s.embeddings.get("e").model,
    ),
    "usage model": Place(
        ("model",),
        lambda s, v: s.usage.record("s", v, Usage(1, 1)),
        lambda s: s.usage.list("s")[0].entry.model,
    ),
}
