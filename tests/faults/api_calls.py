"""Every text parameter of the public API, as a call that takes the text and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledgerstone import Node, assistant, tool_call, user
from tests.faults import kept_calls

# Any stands for the store: the calls are tables of one-liners, and each is run.
Call = Callable[[Any, str], Any]

READS: dict[str, Call] = {
    "sessions.get": lambda s, p: s.sessions.get(p),
    "sessions.head": lambda s, p: s.sessions.head(p),
    "sessions.picker": lambda s, p: s.sessions.picker(p),
    "sessions.document": lambda s, p: s.sessions.document(p),
    "sessions.load": lambda s, p: s.sessions.load(p),
    "sessions.at": lambda s, p: s.sessions.at(p, 1),
    "sessions.recovery": lambda s, p: s.sessions.recovery(p),
    "sessions.list user": lambda s, p: s.sessions.list(user=p).items,
    "sessions.list app": lambda s, p: s.sessions.list(app=p).items,
    "sessions.list status": lambda s, p: s.sessions.list(status=p).items,
    "sessions.list parent": lambda s, p: s.sessions.list(parent=p).items,
    "sessions.list order": lambda s, p: s.sessions.list(order=p).items,
    "sessions.list cursor": lambda s, p: s.sessions.list(cursor=p).items,
    "sessions.list equals": lambda s, p: s.sessions.list(metadata_equals=p).items,
    "sessions.list key": lambda s, p: s.sessions.list(metadata_contains={p: 1}).items,
    "sessions.list value": lambda s, p: s.sessions.list(metadata_contains={"k": p}).items,
    "sessions.list filter": lambda s, p: s.sessions.list(**{p: 1}).items,
    "sessions.count user": lambda s, p: s.sessions.count(user=p),
    "messages.history": lambda s, p: s.messages.history(p),
    "messages.history branch": lambda s, p: s.messages.history("s", branch=p),
    "messages.history at": lambda s, p: s.messages.history("s", at=p),
    "messages.list order": lambda s, p: s.messages.list("s", order=p).items,
    "messages.list cursor": lambda s, p: s.messages.list("s", cursor=p).items,
    "messages.list run": lambda s, p: s.messages.list("s", run_id=p).items,
    "messages.get": lambda s, p: s.messages.get(p),
    "messages.get session": lambda s, p: s.messages.get("m1", session=p),
    "messages.versions": lambda s, p: s.messages.versions(p, session="s"),
    "messages.count": lambda s, p: s.messages.count("s", branch=p),
    "nodes.get": lambda s, p: s.nodes.get("s", p),
    "nodes.find": lambda s, p: s.nodes.find(p),
    "nodes.iter kind": lambda s, p: list(s.nodes.iter("s", kind=p)),
    "nodes.iter label": lambda s, p: list(s.nodes.iter("s", kind="event", label=p)),
    "nodes.iter order": lambda s, p: list(s.nodes.iter("s", order=p)),
    "nodes.iter run": lambda s, p: list(s.nodes.iter("s", run_id=p)),
    "nodes.iter before": lambda s, p: list(s.nodes.iter("s", before_id=p)),
    "nodes.iter key": lambda s, p: list(s.nodes.iter("s", meta_contains={p: 1})),
    "nodes.iter value": lambda s, p: list(s.nodes.iter("s", meta_contains={"k": p})),
    "nodes.path at": lambda s, p: s.nodes.path("s", at=p),
    "nodes.path kind": lambda s, p: s.nodes.path("s", kind=p),
    "nodes.notes": lambda s, p: s.nodes.notes("s", [p]),
    "nodes.notes prefix": lambda s, p: s.nodes.notes("s", ["m1"], prefix=p),
    "nodes.values": lambda s, p: s.nodes.values("s", [p]),
    "branches.list": lambda s, p: s.branches.list(p),
    "branches.diff": lambda s, p: s.branches.diff("s", "main", p),
    "turns.get": lambda s, p: s.turns.get("s", p),
    "turns.list": lambda s, p: s.turns.list(p),
    "runs.get": lambda s, p: s.runs.get(p),
    "runs.latest": lambda s, p: s.runs.latest(p),
    "runs.tree": lambda s, p: s.runs.tree(p),
    "runs.list session": lambda s, p: s.runs.list(session=p, total=True),
    "runs.list status": lambda s, p: s.runs.list(status=p),
    "runs.list parent": lambda s, p: s.runs.list(parent_run=p, total=True),
    "runs.list cursor": lambda s, p: s.runs.list(cursor=p),
    "leases.get": lambda s, p: s.leases.get(p),
    "drafts.list": lambda s, p: s.drafts.list(p),
    "work.list": lambda s, p: s.work.list(p),
    "tickets.get": lambda s, p: s.tickets.get(p),
    "tickets.list user": lambda s, p: s.tickets.list(user=p).items,
    "tickets.list session": lambda s, p: s.tickets.list(session=p).items,
    "tickets.list status": lambda s, p: s.tickets.list(status=p).items,
    "tickets.list run": lambda s, p: s.tickets.list(run_id=p).items,
    "tickets.list reason": lambda s, p: s.tickets.list(reason=p).items,
    "tickets.list cursor": lambda s, p: s.tickets.list(cursor=p).items,
    "executions.get": lambda s, p: s.executions.get(p),
    "executions.list message": lambda s, p: s.executions.list(message=p),
    "executions.list run": lambda s, p: s.executions.list(run_id=p),
    "executions.unresolved": lambda s, p: s.executions.unresolved(session=p),
    "work.dead": lambda s, p: s.work.dead(session=p, total=True),
    "work.dead cursor": lambda s, p: s.work.dead(cursor=p),
    "work.stuck": lambda s, p: s.work.stuck(p),
    "attachments.get": lambda s, p: s.attachments.get("s", p),
    "admin.verify": lambda s, p: s.admin.verify(p).ok,
    **kept_calls.READS,
}
WRITES: dict[str, Call] = {
    "messages.delete": lambda s, p: s.messages.delete(p, session="s"),
    "messages.amend": lambda s, p: s.messages.amend(p, session="s", metadata={"k": 1}),
    "messages.pop branch": lambda s, p: s.messages.pop("s", branch=p),
    "nodes.tombstone": lambda s, p: s.nodes.tombstone("s", [p]),
    "branches.delete": lambda s, p: s.branches.delete("s", p),
    "branches.move": lambda s, p: s.branches.move("s", p, to="m1"),
    "drafts.discard": lambda s, p: s.drafts.discard(p, session="s"),
    "attachments.forget": lambda s, p: s.attachments.forget("s", p),
    "sessions.delete": lambda s, p: s.sessions.delete(p),
    "sessions.restore": lambda s, p: s.sessions.restore(p),
    "sessions.purge": lambda s, p: s.sessions.purge(p).existed,
    "admin.vacuum": lambda s, p: s.admin.vacuum(p).nodes,
    "messages.append text": lambda s, p: s.messages.append("s", user(p, id="text")),
    "messages.append id": lambda s, p: s.messages.append("s", user("x", id=p)),
    "messages.append key": lambda s, p: s.messages.append(
        "s", user("x", id="key", metadata={p: p})
    ),
    "messages.append run": lambda s, p: s.messages.append("s", user("x", id="run"), run_id=p),
    "messages.append branch": lambda s, p: s.messages.append("s", user("x", id="b"), branch=p),
    "messages.append tool": lambda s, p: s.messages.append(
        "s", assistant([tool_call(p, {p: p}, id="c")], id="tool")
    ),
    "nodes.append kind": lambda s, p: s.nodes.append("s", Node(id="kind", kind=p)),
    "nodes.append label": lambda s, p: s.nodes.append("s", Node(id="label", kind="k", label=p)),
    "nodes.append meta": lambda s, p: s.nodes.append("s", Node(id="meta", kind="k", meta={p: p})),
    "nodes.append missing": lambda s, p: s.nodes.append(
        "s", Node(id="missing", kind="k"), parent_missing=p
    ),
    "nodes.annotate node": lambda s, p: s.nodes.annotate("s", p, {"k": p}),
    "nodes.annotate key": lambda s, p: s.nodes.annotate("s", "m1", {p: p}),
    "nodes.annotate mode": lambda s, p: s.nodes.annotate("s", "m1", {"mode": 1}, mode=p),
    "branches.create": lambda s, p: s.branches.create("s", p, at="m1"),
    "runs.create": lambda s, p: s.runs.create("s", id=p, agent=p),
    "runs.create status": lambda s, p: s.runs.create("s", id="status", status=p),
    "runs.create parts": lambda s, p: s.runs.create(
        "s", id="parts", parent_run=p, input=p, request={"sender": p}, dispatch_id=p
    ),
    "runs.update": lambda s, p: s.runs.update("r2", final_output=p, details={p: p}),
    "work.enqueue": lambda s, p: s.work.enqueue("s", p, id=p, key=p),
    "work.enqueue queue": lambda s, p: s.work.enqueue("s", 1, queue=p, merge=f"group:{p}"),
    "work.enqueue slot": lambda s, p: s.work.enqueue("s", 1, id="slot", slot=p, delivery=p),
    "work.cancel": lambda s, p: s.work.cancel("s", p),
    "work.take": lambda s, p: s.work.take(queue=p + " none", owner=p),
    "work.replay": lambda s, p: s.work.replay(p),
    "work.drop": lambda s, p: s.work.drop(p),
    "tickets.resolve": lambda s, p: s.tickets.resolve(p, "approve", by=p, reason=p, result={p: p}),
    "tickets.resolve word": lambda s, p: s.tickets.resolve("t1", p, by="bob"),
    "tickets.cancel": lambda s, p: s.tickets.cancel(p),
    "executions.start": lambda s, p: s.executions.start(
        "s", id=p, call_id=p, tool=p, arguments={p: p}, key=p, message=p, run_id=p
    ),
    "executions.finish": lambda s, p: s.executions.finish(p, result={p: p}),
    "attachments.intent": lambda s, p: s.attachments.intent("s", p, p),
    "leases.take": lambda s, p: s.leases.take("s", owner=p, ttl_s=60).owner,
    "sessions.update": lambda s, p: s.sessions.update("s", title=p, model=p, metadata={p: p}),
    "sessions.create": lambda s, p: s.sessions.create(id=p, user=p, app=p, cwd=p, parent="s"),
    "sessions.copy": lambda s, p: s.sessions.copy("other", p + " copy"),
    "sessions.fork": lambda s, p: s.sessions.fork("other", new_id=p + " fork"),
    **kept_calls.WRITES,
}


def prepare(store: Any) -> None:
    """Something in every namespace, so that a changed row set would be seen."""
    store.sessions.create(id="s", user="ada", app="desk", metadata={"k": 1})
    store.messages.append("s", user("one", id="m1"), assistant("two", id="m2"), run_id="r1")
    store.branches.create("s", "side", at="m1")
    store.nodes.append("s", Node(id="e", kind="event", label="l", meta={"k": 1}))
    store.nodes.annotate("s", "m1", {"seen": 1})
    store.attachments.intent("s", "a1", "blob:a")
    with store.turns.begin("s", id="ask") as turn:
        turn.ask("c1", tool="pay", id="t1", reason="why")
    store.executions.start("s", id="x1", call_id="c2", tool="pay", message="m1", run_id="r1")
    store.runs.create("s", id="r2")
    kept_calls.prepare(store)
    store.messages.append("other", user("bystander", id="o1"), create=True)
