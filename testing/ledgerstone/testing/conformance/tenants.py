"""Tenants and what is kept besides messages: another one's bytes, sums and memories are absent."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import Store, user
from ledgerstone.codec import sha256
from ledgerstone.commands import Query
from ledgerstone.commands.artifacts import ListArtifacts, Owner
from ledgerstone.commands.blobs import CountBlobs, GetBlob, ListAttachments
from ledgerstone.commands.embeddings import ListEmbeddings, ListSpaces
from ledgerstone.commands.evidence import LoadEvidence
from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.commands.memories import SearchMemories
from ledgerstone.commands.usage import FindBudgets, GetStats, ListBudgets, ListUsage
from ledgerstone.errors import BlobNotFound, Misuse, NotFound, OutcomeUnknown, SessionNotFound
from ledgerstone.records.memories import Forget
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.stats import Stats, UsageDeleted
from ledgerstone.records.usage import Cost, Usage
from ledgerstone.records.work import WorkCounts
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.security import FOREIGN as OLDER

Call = Callable[[Any], Any]

DATA = b"of the first tenant"
REF = sha256(DATA)
TENANT = "default"
RUN = Run(id="r1", session="s")


def _held(lease: Any) -> None:
    with lease:
        pass


def _opened(reader: Any) -> bytes:
    with reader as pieces:
        return b"".join(pieces)


SAID = {"role": "user", "content": "x"}

# What another tenant gets for the names of the first one: a value, or an error.
FOREIGN: dict[str, tuple[Call, Any]] = {
    "blobs.get": (lambda s: s.blobs.get(REF), None),
    "blobs.stat": (lambda s: s.blobs.stat(REF), None),
    "blobs.exists": (lambda s: s.blobs.exists(REF), False),
    "blobs.open": (lambda s: _opened(s.blobs.open(REF)), BlobNotFound),
    "blobs.put": (lambda s: s.blobs.put(DATA).ref, REF),
    "attachments.get": (lambda s: s.attachments.get("s", REF), None),
    "attachments.list": (lambda s: s.attachments.list("s"), []),
    "attachments.commit": (lambda s: s.attachments.commit("s", [REF]), []),
    "attachments.put": (lambda s: s.attachments.put("s", DATA).id, REF),
    "attachments.sweep": (lambda s: s.attachments.sweep(older_than_s=0), 0),
    "attachments.forget": (lambda s: s.attachments.forget("s", REF), False),
    "attachments.intent": (lambda s: s.attachments.intent("s", REF, "x:").committed_us, None),
    "attachments.uncommitted": (lambda s: s.attachments.uncommitted(before=2**60), []),
    "artifacts.get": (lambda s: s.artifacts.get("plan", session="s"), None),
    "artifacts.get of id": (lambda s: s.artifacts.get(id="i1"), None),
    "artifacts.get of uri": (lambda s: s.artifacts.get(uri="x:1"), None),
    "artifacts.read": (lambda s: s.artifacts.read("plan", session="s"), None),
    "artifacts.open": (lambda s: _opened(s.artifacts.open("plan", session="s")), NotFound),
    "artifacts.versions": (lambda s: s.artifacts.versions("plan", session="s"), []),
    "artifacts.list": (lambda s: s.artifacts.list(session="s"), []),
    "artifacts.list of user": (lambda s: s.artifacts.list(user="u"), []),
    "artifacts.list of all": (lambda s: s.artifacts.list(), []),
    "artifacts.iter": (lambda s: list(s.artifacts.iter(session="s")), []),
    "artifacts.load": (lambda s: s.artifacts.load("s"), None),
    "artifacts.put": (lambda s: s.artifacts.put("plan", b"y", session="s", id="i1").version, 1),
    "artifacts.put of ref": (lambda s: s.artifacts.put("plan", blob=REF), BlobNotFound),
    "artifacts.save": (lambda s: s.artifacts.save("s", []), []),
    "artifacts.delete": (lambda s: s.artifacts.delete("plan", session="s"), 0),
    "artifacts.clear": (lambda s: s.artifacts.clear("s"), 0),
    "traces.load": (lambda s: s.traces.load("s"), None),
    "traces.list": (lambda s: s.traces.list("s"), []),
    "traces.iter": (lambda s: list(s.traces.iter("s")), []),
    "traces.append": (lambda s: s.traces.append("s", {"kind": "k", "name": "n"}), 1),
    "traces.save": (lambda s: s.traces.save("s", []), 0),
    "traces.delete": (lambda s: s.traces.delete("s"), 0),
    "reports.load": (lambda s: s.reports.load("s"), None),
    "reports.list": (lambda s: s.reports.list("s"), []),
    "reports.iter": (lambda s: list(s.reports.iter("s")), []),
    "reports.append": (lambda s: s.reports.append("s", {"subject": "x"}), 1),
    "reports.save": (lambda s: s.reports.save("s", []), 0),
    "reports.delete": (lambda s: s.reports.delete("s"), 0),
    "usage.record": (lambda s: s.usage.record("s", "m", Usage(1, 1)), SessionNotFound),
    "usage.list": (lambda s: s.usage.list("s"), []),
    "usage.get": (lambda s: s.usage.get("s", "u1"), None),
    "usage.iter": (lambda s: list(s.usage.iter("s")), []),
    "usage.summary": (lambda s: s.usage.summary(), []),
    "usage.summary of one": (lambda s: s.usage.summary(session="s"), []),
    "usage.delete": (lambda s: s.usage.delete("s"), UsageDeleted(0, 0)),
    "usage.budget": (lambda s: s.usage.budget(tokens=1, id="g1").spent_tokens, 0),
    "usage.budgets": (lambda s: s.usage.budgets(), []),
    "usage.drop_budget": (lambda s: s.usage.drop_budget("g1"), False),
    "usage.check": (lambda s: s.usage.check(Usage(2000), session="s"), []),
    "usage.remaining": (lambda s: s.usage.remaining("s"), []),
    "memories.get": (lambda s: s.memories.get(("a",), "k"), None),
    "memories.get and touch": (lambda s: s.memories.get(("a",), "k", touch=True), None),
    "memories.iter": (lambda s: list(s.memories.iter()), []),
    "memories.search": (lambda s: s.memories.search(), []),
    "memories.search of vector": (lambda s: s.memories.search(vector=[1.0, 0.0]), []),
    "memories.namespaces": (lambda s: s.memories.namespaces(), []),
    "memories.delete": (lambda s: s.memories.delete(("a",), "k"), False),
    "memories.put": (lambda s: s.memories.put(("a",), "k", 2).value, 2),
    "memories.batch": (lambda s: s.memories.batch([Forget(("a",), "k")]), [False]),
    "memories.sweep": (lambda s: s.memories.sweep(), 0),
    "embeddings.get": (lambda s: s.embeddings.get("e1"), None),
    "embeddings.search": (lambda s: s.embeddings.search([1.0, 0.0]), []),
    "embeddings.iter": (lambda s: list(s.embeddings.iter()), []),
    "embeddings.delete": (lambda s: s.embeddings.delete("e1"), False),
    "embeddings.delete_session": (lambda s: s.embeddings.delete_session("s"), 0),
    "embeddings.put": (lambda s: s.embeddings.put([1.0], id="e1").vector, (1.0,)),
    "embeddings.put_many": (lambda s: s.embeddings.put_many([]), []),
    "messages.context": (lambda s: s.messages.context("s").messages, []),
    "messages.should_compact": (lambda s: s.messages.should_compact("s"), False),
    "sessions.stats": (lambda s: s.sessions.stats("s"), Stats(session="s")),
    "admin.tenants": (lambda s: s.admin.tenants(), Misuse),
    "admin.stats": (lambda s: s.admin.stats(), Misuse),
    "admin.backup": (lambda s: s.admin.backup("never-made.db"), Misuse),
    "admin.health": (lambda s: (s.admin.health().ok, s.admin.health().warnings), (True, [])),
    "admin.gc": (lambda s: s.admin.gc(older_than_s=0, attachments_older_than_s=0).deleted, 0),
}
# What `security` leaves out of the older namespaces.
FOREIGN |= {
    "branches.delete": (lambda s: s.branches.delete("s", "side"), NotFound),
    "feed.read": (lambda s: s.feed.read().entries, []),
    "nodes.replace": (lambda s: s.nodes.replace("s", [], leaf=None), SessionNotFound),
    "nodes.values": (lambda s: s.nodes.values("s", [REF]), {}),
    "runs.create": (lambda s: s.runs.create("s", id="r1"), SessionNotFound),
    "runs.iter": (lambda s: list(s.runs.iter()), []),
    "runs.list": (lambda s: s.runs.list(session="s").items, []),
    "runs.tree": (lambda s: s.runs.tree("r1"), None),
    "runs.update": (lambda s: s.runs.update("r1", status="done"), NotFound),
    "sessions.create": (lambda s: s.sessions.create(id="s").title, None),
    "sessions.ensure": (lambda s: s.sessions.ensure("s").title, None),
    "sessions.get_or_create": (lambda s: s.sessions.get_or_create("s").title, None),
    "sessions.put": (lambda s: s.sessions.put(Session(id="s")).title, None),
    "tickets.inbox": (lambda s: s.tickets.inbox().items, []),
    "turns.begin": (lambda s: s.turns.begin("s").commit(), SessionNotFound),
    "turns.outcome": (
        lambda s: s.turns.outcome(OutcomeUnknown("lost", session="s", turn="t1")),
        None,
    ),
    "turns.commit": (lambda s: s.turns.commit("s", [user("x")]), SessionNotFound),
    "turns.checkpoint": (lambda s: s.turns.checkpoint("s", [], RUN).revision, 1),
    "leases.hold": (lambda s: _held(s.leases.hold("s")), SessionNotFound),
}
# The session in the words of other libraries.
FOREIGN |= {
    "session.as_openai": (lambda s: s.session("s").as_openai(), []),
    "session.as_openai chat": (lambda s: s.session("s").as_openai(chat=True), []),
    "session.as_anthropic": (lambda s: s.session("s").as_anthropic(), {"messages": []}),
    "session.as_langchain": (lambda s: s.session("s").as_langchain(), []),
    "session.as_pydantic_ai": (lambda s: s.session("s").as_pydantic_ai(), []),
    "session.as_adk": (lambda s: s.session("s").as_adk(), []),
    "session.add_openai": (lambda s: s.session("s").add_openai([SAID]), SessionNotFound),
    "session.add_anthropic": (lambda s: s.session("s").add_anthropic([SAID]), SessionNotFound),
    "session.add_langchain": (
        lambda s: s.session("s").add_langchain([{"type": "human", "data": {"content": "x"}}]),
        SessionNotFound,
    ),
    "session.add_pydantic_ai": (
        lambda s: s.session("s").add_pydantic_ai([{"kind": "request", "parts": []}]),
        SessionNotFound,
    ),
    "session.add_adk": (
        lambda s: s.session("s").add_adk([{"author": "user"}]),
        SessionNotFound,
    ),
}
# What became of work.
FOREIGN |= {
    "work.ended": (lambda s: s.work.ended("done").items, []),
    "work.ended of session": (lambda s: s.work.ended("done", session="s").items, []),
    "work.counts": (lambda s: s.work.counts(), WorkCounts()),
    "work.counts of session": (lambda s: s.work.counts("s"), WorkCounts()),
    "work.prune": (lambda s: s.work.prune(older_than_s=0), 0),
    "work.interrupt": (lambda s: s.work.interrupt("s"), SessionNotFound),
}
# Built on the calls above, or of the operator of the whole store.
BUILT_ON = {
    "admin.after_restore",
    "admin.copy_to",
    "admin.root",
    "executions.run",
    "feed.follow",
    "work.abandon",
    "work.fail",
    "work.hold",
    "work.park",
    "work.renew",
}


def everything() -> list[Query[Any]]:
    """What the first tenant keeps."""
    common: dict[str, Any] = {"tenant": TENANT}
    owners = (Owner(session="s"), Owner(user="u"), Owner())
    return [
        *(ListArtifacts(owner=owner, **common) for owner in owners),
        *(LoadEvidence(session="s", kind=kind, **common) for kind in ("trace", "report")),
        GetBlob(ref=REF, **common),
        CountBlobs(**common),
        ListAttachments(session="s", **common),
        SearchMemories(**common),
        ListEmbeddings(**common),
        ListSpaces(**common),
        GetStats(session="s", **common),
        ListUsage(session="s", **common),
        ListBudgets(**common),
        FindBudgets(session="s", **common),
    ]


def fill(store: Store) -> None:
    """Session s with something of everything."""
    store.sessions.create(id="s", title="secret")
    store.messages.append("s", user("secret", id="m1"))
    store.branches.create("s", "side", at="m1")
    store.runs.create("s", id="r1")
    attached = store.attachments.put("s", DATA)
    with store.turns.begin("s", id="t1") as turn:
        turn.user("see this")
        turn.attach(attached)
        turn.use("m", Usage(5, 5), cost=Cost(7), id="u1")
    store.artifacts.put("plan", DATA, session="s", id="i1", uri="x:1")
    store.artifacts.put("plan", DATA, user="u")
    store.artifacts.put("plan", DATA)
    store.traces.append("s", {"kind": "k", "name": "n"})
    store.reports.append("s", {"subject": "x"})
    store.usage.budget(session="s", tokens=1000, id="g1")
    store.memories.put(("a",), "k", {"secret": 1}, vector=[1.0, 0.0], ttl_s=60)
    store.embeddings.put([1.0, 0.0], id="e1", session="s")


class TestTenantsOfWhatIsKept:
    @pytest.mark.promise(14, 193)
    @pytest.mark.parametrize("name", FOREIGN)
    def test_another_tenant_sees_and_changes_nothing(self, backend: Bed, name: str) -> None:
        fill(backend.store)
        call, wanted = FOREIGN[name]
        before = backend.ask_all(*everything())
        stranger = backend.store.for_tenant("stranger")
        with backend.unchanged("s"):
            if isinstance(wanted, type):
                with pytest.raises(wanted):
                    call(stranger)
            else:
                assert call(stranger) == wanted
        assert backend.ask_all(*everything()) == before
        assert backend.store.blobs.get(REF) == DATA

    @pytest.mark.promise(14, 193)
    def test_a_vector_search_stays_with_its_tenant(self, backend: Bed) -> None:
        """An index that is kept between calls belongs to one tenant."""
        stranger = backend.store.for_tenant("stranger")
        for store, id in ((backend.store, "mine"), (stranger, "theirs")):
            store.embeddings.put([1.0, 0.0], id=id)
        for store, id in ((backend.store, "mine"), (stranger, "theirs"), (backend.store, "mine")):
            assert [found.embedding.id for found in store.embeddings.search([1.0, 0.0])] == [id]

    @pytest.mark.promise(14, 193)
    def test_the_operators_handle_is_the_one_that_was_opened(self, backend: Bed) -> None:
        """Without a tenant, or without naming one; what is derived from it is a tenant's."""
        fill(backend.store)
        for operator in (backend.store, Store(backend.port, tenant=None), Store(backend.port)):
            assert operator.admin.tenants() == [TENANT]
            assert operator.admin.stats().counts["sessions"] == 1
        for tenants in (
            backend.store.for_tenant(TENANT),
            backend.store.for_tenant("acme"),
            Store(backend.port, tenant="acme"),
            Store(backend.port, tenant=None).for_tenant(TENANT),
        ):
            for call in (tenants.admin.tenants, tenants.admin.stats):
                with pytest.raises(Misuse, match=r"call it on the store that Store\.open"):
                    call()
            assert tenants.admin.health().ok

    @pytest.mark.promise(14, 193)
    def test_positions_of_the_feed_are_the_operators(self, backend: Bed) -> None:
        fill(backend.store)
        assert all(entry.pos for entry in backend.store.feed.read().entries)
        tenants = backend.store.for_tenant(TENANT)
        assert {entry.pos for entry in tenants.feed.read().entries} == {0}
        assert {entry.pos for entry in tenants.feed.read(session="s").entries} == {0}
        assert next(iter(tenants.feed.follow())).pos == 0
        for query in (ReadFeed(tenant=TENANT), FeedEnd(tenant=TENANT)):
            with pytest.raises(Misuse):
                tenants.read(query)
            assert backend.store.read(query)

    def test_no_method_is_missing_here(self, backend: Bed) -> None:
        """A new method says first what a stranger gets."""
        known = {name.partition(" ")[0] for name in (*FOREIGN, *OLDER)} | BUILT_ON
        spaces = {
            name: getattr(backend.store, name) for name in type(backend.store).__annotations__
        }
        spaces["session"] = backend.store.session("s")
        there = {
            f"{namespace}.{name}"
            for namespace, found in spaces.items()
            for name, _ in inspect.getmembers(found, callable)
            if not namespace.startswith("_") and not name.startswith("_")
        }
        assert there - known == set()
        assert known - there == set()
