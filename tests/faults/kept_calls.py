"""Every text parameter of blobs, artifacts, evidence, usage and memory, as calls of one text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledgerstone.codec import sha256
from ledgerstone.records.usage import Cost, Usage

# Any stands for the store: the calls are tables of one-liners, and each is run.
Call = Callable[[Any, str], Any]

DATA = b"bytes"
REF = sha256(DATA)

READS: dict[str, Call] = {
    "blobs.get": lambda s, p: s.blobs.get(p),
    "blobs.stat": lambda s, p: s.blobs.stat(p),
    "blobs.exists": lambda s, p: s.blobs.exists(p),
    "attachments.list": lambda s, p: s.attachments.list(p),
    "artifacts.get": lambda s, p: s.artifacts.get(p, session="s"),
    "artifacts.get session": lambda s, p: s.artifacts.get("plan", session=p),
    "artifacts.get user": lambda s, p: s.artifacts.get("plan", user=p),
    "artifacts.get id": lambda s, p: s.artifacts.get(id=p),
    "artifacts.get uri": lambda s, p: s.artifacts.get(uri=p),
    "artifacts.read": lambda s, p: s.artifacts.read(p, session="s"),
    "artifacts.list": lambda s, p: s.artifacts.list(session=p),
    "artifacts.list name": lambda s, p: s.artifacts.list(session="s", name=p),
    "artifacts.versions": lambda s, p: s.artifacts.versions(p, session="s"),
    "artifacts.load": lambda s, p: s.artifacts.load(p),
    "traces.load": lambda s, p: s.traces.load(p),
    "traces.list kind": lambda s, p: s.traces.list("s", kind=p),
    "traces.list name": lambda s, p: s.traces.list("s", name=p),
    "traces.list run": lambda s, p: s.traces.list("s", run_id=p),
    "reports.load": lambda s, p: s.reports.load(p),
    "usage.list": lambda s, p: s.usage.list(p),
    "usage.summary by": lambda s, p: s.usage.summary(by=p),
    "usage.summary session": lambda s, p: s.usage.summary(session=p),
    "usage.summary user": lambda s, p: s.usage.summary(user=p),
    "usage.budgets": lambda s, p: s.usage.budgets(p),
    "usage.remaining": lambda s, p: s.usage.remaining(p),
    "sessions.stats": lambda s, p: s.sessions.stats(p),
    "memories.get": lambda s, p: s.memories.get(("a",), p),
    "memories.get namespace": lambda s, p: s.memories.get((p,), "k"),
    "memories.search": lambda s, p: s.memories.search((p,)),
    "memories.search key": lambda s, p: s.memories.search(filter={p: 1}),
    "memories.search value": lambda s, p: s.memories.search(filter={"v": p}),
    "memories.search model": lambda s, p: s.memories.search(vector=[1.0], model=p),
    "memories.iter": lambda s, p: list(s.memories.iter((p,))),
    "memories.namespaces": lambda s, p: s.memories.namespaces(match=(p,)),
    "memories.namespaces suffix": lambda s, p: s.memories.namespaces(suffix=(p,)),
    "embeddings.get": lambda s, p: s.embeddings.get(p),
    "embeddings.search model": lambda s, p: s.embeddings.search([1.0], model=p),
    "embeddings.search session": lambda s, p: s.embeddings.search([1.0], session=p),
    "embeddings.search namespace": lambda s, p: s.embeddings.search([1.0], namespace=(p,)),
    "embeddings.search filter": lambda s, p: s.embeddings.search([1.0], filter={"v": p}),
    "messages.context": lambda s, p: s.messages.context(p).messages,
    "messages.context branch": lambda s, p: s.messages.context("s", branch=p).messages,
    "messages.context at": lambda s, p: s.messages.context("s", at=p).messages,
}
WRITES: dict[str, Call] = {
    "blobs.put": lambda s, p: s.blobs.put(p.encode("utf-8", "replace"), media_type=p),
    "attachments.put": lambda s, p: s.attachments.put(p, b"y", media_type="text/plain"),
    "attachments.put id": lambda s, p: s.attachments.put("s", b"y", id=p),
    "artifacts.put": lambda s, p: s.artifacts.put(p, b"y", session="s", id=p, uri=p, tool=p),
    "artifacts.put user": lambda s, p: s.artifacts.put("plan", b"y", user=p, metadata={p: p}),
    "artifacts.put type": lambda s, p: s.artifacts.put("plan", b"y", media_type=p),
    "artifacts.put blob": lambda s, p: s.artifacts.put("plan", blob=p),
    "artifacts.delete": lambda s, p: s.artifacts.delete(p, session="s"),
    "artifacts.delete id": lambda s, p: s.artifacts.delete(id=p, session="s"),
    "artifacts.clear": lambda s, p: s.artifacts.clear(p),
    "traces.append": lambda s, p: s.traces.append("s", {"kind": p, "name": p, "details": {p: p}}),
    "traces.append key": lambda s, p: s.traces.append("s", {"kind": "k", "name": "n"}, key=p),
    "traces.delete": lambda s, p: s.traces.delete(p),
    "reports.append": lambda s, p: s.reports.append(p, {"subject": p, "residual_risks": [p]}),
    "reports.delete": lambda s, p: s.reports.delete(p),
    "usage.record": lambda s, p: s.usage.record("s", p, Usage(1, 1), source=p, provider=p),
    "usage.record currency": lambda s, p: s.usage.record("s", "m", Usage(1), cost=Cost(1, p)),
    "usage.budget": lambda s, p: s.usage.budget(user=p, tokens=10**9, id=p),
    "usage.budget period": lambda s, p: s.usage.budget(tokens=10**9, period=p),
    "usage.drop_budget": lambda s, p: s.usage.drop_budget(p),
    "usage.delete": lambda s, p: s.usage.delete(p),
    "memories.put": lambda s, p: s.memories.put((p, p), p, {p: p}),
    "memories.put model": lambda s, p: s.memories.put(("m",), "k", 1, vector=[1.0], model=p),
    "memories.delete": lambda s, p: s.memories.delete((p,), "k"),
    "embeddings.put": lambda s, p: s.embeddings.put(
        [1.0], id=p, model=p, session=p, namespace=(p,), metadata={p: p}
    ),
    "embeddings.delete": lambda s, p: s.embeddings.delete(p),
    "embeddings.delete_session": lambda s, p: s.embeddings.delete_session(p),
}


def prepare(store: Any) -> None:
    """Something of each, so that a changed row set would be seen."""
    store.artifacts.put("plan", DATA, session="s", id="i1", uri="x:1")
    store.artifacts.put("plan", DATA, user="ada", id="i2")
    store.traces.append("s", {"kind": "k", "name": "n", "run_id": "r1"})
    store.reports.append("s", {"subject": "x"})
    store.usage.record("s", "m", Usage(1, 1), cost=Cost(1))
    store.usage.budget(session="s", tokens=10**9, id="g1")
    store.memories.put(("a",), "k", {"v": 1}, vector=[1.0])
    store.embeddings.put([1.0], id="e1", session="s", metadata={"v": 1})


def use_as_names(store: Any, text: str) -> None:
    """Wherever bytes have a name; on its own, since some texts are no ids at all."""
    store.artifacts.put(text, DATA, session=text, id=text, uri=text, media_type="text/plain")
    store.artifacts.read(text, session=text)
    store.artifacts.put(text, DATA, user=text)
    store.attachments.put(text, DATA + text.encode("utf-8", "replace"))
    store.traces.append(text, {"kind": text, "name": text})
    store.reports.append(text, {"subject": text})
    store.memories.put((text,), text, text, vector=[1.0], model=text)
    store.embeddings.put([1.0], id=text, model=text, session=text)
    store.usage.budget(user=text, tokens=10, id=text)
    store.artifacts.clear(text)
    store.admin.gc(older_than_s=0, attachments_older_than_s=0)
