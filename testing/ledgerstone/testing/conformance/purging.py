"""What goes with a purged session: bytes it needed, evidence, vectors, usage and budgets."""

from __future__ import annotations

from hashlib import sha256
from struct import pack
from typing import Any

import pytest

from ledgerstone import Session
from ledgerstone.commands.artifacts import (
    GetArtifact,
    LoadArtifacts,
    NewArtifact,
    Owner,
    PutArtifact,
)
from ledgerstone.commands.blobs import (
    BeginUpload,
    FinishUpload,
    GetAttachment,
    GetBlob,
    RecordIntent,
)
from ledgerstone.commands.embeddings import (
    GetEmbedding,
    ListEmbeddings,
    ListSpaces,
    NewEmbedding,
    PutEmbeddings,
)
from ledgerstone.commands.evidence import AppendEvidence, LoadEvidence
from ledgerstone.commands.memories import GetMemories, MemoryName, NewMemory, PutMemory
from ledgerstone.commands.sessions import CreateSession, PurgeSession
from ledgerstone.commands.usage import GetStats, ListBudgets, ListUsage, SetBudget, SummariseUsage
from ledgerstone.records.sessions import Receipt
from ledgerstone.records.stats import Budget, Stats
from ledgerstone.testing.bed import Bed

__all__ = ["TestPurgeOfWhatLiesBeside", "TestPurgeOfUsage"]

T = "default"
REF = sha256(b"x").hexdigest()
REMOVED = {
    "attachments": 1,
    "artifacts": 2,
    "traces": 2,
    "reports": 1,
    "embeddings": 2,
    "budgets": 1,
}


def blob(backend: Bed, tenant: str = T) -> None:
    """A blob of which only the row matters here."""
    key = f"key of {tenant}"
    backend.write(BeginUpload(tenant=tenant, key=key, place="elsewhere"))
    backend.write(
        FinishUpload(tenant=tenant, key=key, ref=REF, size_bytes=1, sums=sha256(b"x").digest())
    )


def beside(backend: Bed, session: str, tenant: str = T) -> None:
    """Something of everything that needs no session."""
    of: dict[str, Any] = {"tenant": tenant, "session": session}
    for n in (1, 2):
        new = NewArtifact(id=f"{session}-{n}", name="out.txt", ref=REF)
        backend.write(PutArtifact(tenant=tenant, owner=Owner(session), artifact=new))
    backend.write(AppendEvidence(kind="trace", bodies=(b'{"a":1}', b'{"a":2}'), **of))
    backend.write(AppendEvidence(kind="report", bodies=(b'{"a":3}',), **of))
    backend.write(RecordIntent(id=REF, uri=f"blob:{REF}", **of))
    vectors = tuple(
        NewEmbedding(id=f"{session} {n}", model="m", vector=pack("<2f", n, 1), session=session)
        for n in (1, 2)
    )
    backend.write(PutEmbeddings(tenant=tenant, embeddings=vectors))
    budget = Budget(id=f"of {session}", scope="session", subject=session, tokens=1000)
    backend.write(SetBudget(tenant=tenant, budget=budget))


def purge(backend: Bed, session: str) -> Receipt:
    return backend.write(PurgeSession(tenant=T, id=session))


def left(backend: Bed, session: str, tenant: str = T) -> list[Any]:
    """Everything that can still be read of what lay beside a session."""
    of: dict[str, Any] = {"tenant": tenant, "session": session}
    return backend.ask_all(
        LoadArtifacts(**of),
        GetArtifact(tenant=tenant, id=f"{session}-1"),
        GetArtifact(tenant=tenant, uri=f"artifact:{session}-2"),
        LoadEvidence(kind="trace", **of),
        LoadEvidence(kind="report", **of),
        GetAttachment(id=REF, **of),
        GetEmbedding(tenant=tenant, id=f"{session} 1"),
    )


class TestPurgeOfWhatLiesBeside:
    """`purge` cascades to everything that names the session, whether there is one or not."""

    @pytest.mark.promise(24, 30, 167, 182)
    @pytest.mark.parametrize("existed", [True, False])
    def test_nothing_is_left_and_the_receipt_says_how_much_it_was(
        self, backend: Bed, existed: bool
    ) -> None:
        blob(backend)
        if existed:
            backend.store.sessions.create(id="s")
        beside(backend, "s")
        assert None not in left(backend, "s")
        receipt = purge(backend, "s")
        assert (receipt.existed, receipt.removed) == (existed, REMOVED)
        for _ in range(2):
            assert set(left(backend, "s")) == {None}
            assert backend.ask(ListEmbeddings(tenant=T, session="s")) == []
            assert backend.ask(ListBudgets(tenant=T)) == []
            assert backend.store.admin.verify().ok
            backend.reopen()
        assert purge(backend, "s").removed == {}

    @pytest.mark.promise(24, 30)
    def test_a_deleted_session_is_purged_with_all_of_it(self, backend: Bed) -> None:
        blob(backend)
        backend.store.sessions.create(id="s")
        beside(backend, "s")
        backend.store.sessions.delete("s")
        assert None not in left(backend, "s")
        assert purge(backend, "s").removed == REMOVED
        assert set(left(backend, "s")) == {None}

    @pytest.mark.promise(24, 30)
    def test_the_whole_receipt_adds_what_was_swept(self, backend: Bed) -> None:
        blob(backend)
        backend.store.sessions.create(id="s")
        beside(backend, "s")
        with backend.store.turns.begin("s") as turn:
            turn.user("hello")
        removed = backend.store.sessions.purge("s").removed
        assert {table: removed[table] for table in REMOVED} == REMOVED
        assert (removed["nodes"], removed["turns"]) == (1, 1)

    @pytest.mark.promise(4, 24, 30)
    def test_neighbours_and_what_belongs_to_nobody_stay(self, backend: Bed) -> None:
        for tenant in (T, "other"):
            blob(backend, tenant)
            beside(backend, "s", tenant)
        beside(backend, "t")
        shared = NewArtifact(id="shared", name="out.txt", ref=REF)
        backend.write(PutArtifact(tenant=T, owner=Owner(user="s"), artifact=shared))
        memory = NewMemory(namespace="s\x1f", key="k", value=b"1")
        backend.write(PutMemory(tenant=T, memory=memory))
        purge(backend, "s")
        for _ in range(2):
            assert None not in left(backend, "t")
            assert None not in left(backend, "s", "other")
            assert backend.ask(GetArtifact(tenant=T, id="shared")) is not None
            assert backend.ask(GetBlob(tenant=T, ref=REF)) is not None, "until it is collected"
            names = (MemoryName("s\x1f", "k"),)
            assert backend.ask(GetMemories(tenant=T, names=names))[0] is not None
            backend.reopen()

    @pytest.mark.promise(24, 167)
    def test_an_index_can_see_that_vectors_went(self, backend: Bed) -> None:
        blob(backend)
        for session in ("s", "t"):
            beside(backend, session)
        purge(backend, "s")
        for _ in range(2):
            (space,) = backend.ask(ListSpaces(tenant=T))
            assert (space.dimension, space.count, space.changes, space.drops) == (2, 2, 4, 2)
            backend.reopen()

    @pytest.mark.promise(24, 27)
    def test_the_next_life_of_an_id_starts_with_none_of_it(self, backend: Bed) -> None:
        blob(backend)
        backend.store.sessions.create(id="s")
        beside(backend, "s")
        purge(backend, "s")
        backend.store.sessions.create(id="s")
        assert set(left(backend, "s")) == {None}
        beside(backend, "s")
        loaded = backend.ask(LoadArtifacts(tenant=T, session="s"))
        assert loaded is not None
        assert [one.version for one in loaded] == [1, 2]
        backend.reopen()
        assert None not in left(backend, "s")
        assert purge(backend, "s").removed == REMOVED


class TestPurgeOfUsage:
    """What a purged session used is in no sum any more."""

    @pytest.mark.promise(24, 159)
    def test_sums_and_budgets_forget_it(self, backend: Bed) -> None:
        for session in ("s", "t"):
            made = Session(id=session, tenant=T, user="ada")
            backend.write(CreateSession(tenant=T, session=made))
            with backend.store.turns.begin(session) as turn:
                turn.user("hello")
                turn.use("m", {"input": 10, "output": 5})
        for period in ("total", "month"):
            for scope, subject in (("tenant", None), ("user", "ada")):
                budget = Budget(
                    id=f"{scope} {period}",
                    scope=scope,  # type: ignore[arg-type]
                    subject=subject,
                    period=period,
                    tokens=1000,
                )
                backend.write(SetBudget(tenant=T, budget=budget))
        assert spent(backend) == {30}
        purge(backend, "s")
        for _ in range(2):
            (summed,) = backend.ask(SummariseUsage(tenant=T))
            assert (summed.calls, summed.usage.total) == (1, 15)
            assert spent(backend) == {15}
            assert backend.ask(GetStats(tenant=T, session="s")) == Stats(session="s")
            assert backend.ask(ListUsage(tenant=T, session="s")) == []
            assert backend.store.admin.verify().ok
            backend.reopen()
        backend.store.sessions.purge("t")
        assert spent(backend) == {0}
        assert backend.ask(SummariseUsage(tenant=T)) == []
        assert backend.store.admin.verify().ok


def spent(backend: Bed) -> set[int]:
    return {one.spent_tokens for one in backend.ask(ListBudgets(tenant=T))}
