"""The queue of a session, as far as a commit settles it."""

from __future__ import annotations

import pytest

from ledgerstone import user
from ledgerstone.errors import (
    ClaimLost,
    Fenced,
    InvalidValue,
    LeaseExpired,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.records.leases import Lease
from ledgerstone.testing.bed import Bed


class OnASession:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        backend.store.messages.append("s", user("hi"), create=True)
        return "s"

    def take(self, backend: Bed, owner: str = "ann", ttl_s: float = 60) -> Lease:
        lease = backend.store.leases.take("s", owner=owner, ttl_s=ttl_s)
        assert lease is not None
        return lease


class TestEnqueueing(OnASession):
    @pytest.mark.promise(131)
    def test_work_is_kept_with_its_payloads_in_order(self, backend: Bed, session: str) -> None:
        payloads = [{"n": 1}, "two", None, [3]]
        made = backend.store.work.enqueue(session, *payloads, id="w1")
        backend.reopen()
        assert backend.store.work.list(session) == [made]
        assert (made.session, made.id, made.payloads, made.claim) == (session, "w1", payloads, None)

    @pytest.mark.promise(131, 133)
    def test_batches_are_listed_in_the_order_they_came(self, backend: Bed, session: str) -> None:
        for n in (3, 1, 2):
            backend.store.work.enqueue(session, n, id=f"w{n}")
        listed = backend.store.work.list(session)
        assert [batch.id for batch in listed] == ["w3", "w1", "w2"]
        seqs = [batch.enqueue_seq for batch in listed]
        assert seqs == sorted(set(seqs))

    @pytest.mark.promise(132)
    def test_the_same_key_while_queued_is_the_existing_batch(
        self, backend: Bed, session: str
    ) -> None:
        first = backend.store.work.enqueue(session, "one", key="k")
        with backend.unchanged(session):
            assert backend.store.work.enqueue(session, "other", key="k") == first

    @pytest.mark.promise(132)
    def test_without_a_key_it_is_always_new(self, backend: Bed, session: str) -> None:
        first, second = (backend.store.work.enqueue(session, "same") for _ in range(2))
        assert first.id != second.id
        assert len(backend.store.work.list(session)) == 2

    @pytest.mark.promise(132)
    def test_the_key_of_another_session_is_another_key(self, backend: Bed, session: str) -> None:
        backend.store.sessions.create(id="other")
        backend.store.work.enqueue(session, "one", key="k")
        backend.store.work.enqueue("other", "two", key="k")
        assert [b.payloads for b in backend.store.work.list("other")] == [["two"]]

    @pytest.mark.promise(132)
    def test_a_key_is_free_again_when_its_batch_is_done(self, backend: Bed, session: str) -> None:
        store = backend.store
        first = store.work.enqueue(session, "one", key="k")
        lease = self.take(backend)
        claim = store.work.claim(lease)
        assert claim is not None
        with store.turns.begin(lease) as turn:
            turn.complete(claim)
        second = store.work.enqueue(session, "two", key="k")
        assert second.id != first.id
        assert second.enqueue_seq > first.enqueue_seq

    def test_the_same_batch_again_is_the_first_one(self, backend: Bed, session: str) -> None:
        first = backend.store.work.enqueue(session, "one", id="w1")
        with backend.unchanged(session):
            assert backend.store.work.enqueue(session, "one", id="w1") == first

    def test_work_moves_no_revision_and_needs_no_lease(self, backend: Bed, session: str) -> None:
        self.take(backend)
        backend.store.work.enqueue(session, "one")
        assert backend.revision(session) == 1

    def test_where_work_can_not_go(self, backend: Bed, session: str) -> None:
        with pytest.raises(SessionNotFound):
            backend.store.work.enqueue("nowhere", 1)
        with pytest.raises(InvalidValue):
            backend.store.work.enqueue(session)
        backend.store.sessions.delete(session)
        with pytest.raises(SessionDeleted):
            backend.store.work.enqueue(session, 1)

    @pytest.mark.promise(147)
    def test_the_queue_survives_a_reopening(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, "one", id="w1")
        lease = self.take(backend)
        claim = backend.store.work.claim(lease, id="c1")
        backend.reopen()
        assert [(b.id, b.claim) for b in backend.store.work.list(session)] == [("w1", "c1")]
        assert backend.store.work.claim(lease, id="c1") == claim


class TestClaiming(OnASession):
    @pytest.mark.promise(133)
    def test_the_oldest_batch_is_claimed_and_stays_listed(self, backend: Bed, session: str) -> None:
        store = backend.store
        for n in (1, 2):
            store.work.enqueue(session, n, id=f"w{n}")
        lease = self.take(backend)
        claim = store.work.claim(lease, id="c1")
        assert claim is not None
        assert (claim.session, claim.id, claim.fence) == (session, "c1", lease.fence)
        assert [batch.id for batch in claim.batches] == ["w1"]
        assert [(b.id, b.claim) for b in store.work.list(session)] == [("w1", "c1"), ("w2", None)]

    @pytest.mark.promise(139)
    def test_a_claimed_batch_is_not_claimed_again(self, backend: Bed, session: str) -> None:
        store = backend.store
        store.work.enqueue(session, 1)
        lease = self.take(backend)
        assert store.work.claim(lease) is not None
        assert store.work.claim(lease) is None

    def test_the_same_claim_again_is_the_same_claim(self, backend: Bed, session: str) -> None:
        for n in (1, 2):
            backend.store.work.enqueue(session, n)
        lease = self.take(backend)
        first = backend.store.work.claim(lease, id="c1")
        assert backend.store.work.claim(lease, id="c1") == first

    @pytest.mark.promise(128, 135)
    def test_a_claim_needs_a_live_lease(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1)
        old = self.take(backend, ttl_s=10)
        backend.clock.advance(10)
        with backend.unchanged(session), pytest.raises(LeaseExpired):
            backend.store.work.claim(old)
        self.take(backend, "bob")
        with backend.unchanged(session), pytest.raises(Fenced):
            backend.store.work.claim(old)

    @pytest.mark.promise(138)
    def test_the_work_of_another_session_is_never_claimed(self, backend: Bed, session: str) -> None:
        backend.store.sessions.create(id="other")
        backend.store.work.enqueue("other", 1)
        assert backend.store.work.claim(self.take(backend)) is None

    @pytest.mark.promise(140)
    def test_a_successor_claims_what_the_dead_one_had(self, backend: Bed, session: str) -> None:
        store = backend.store
        store.work.enqueue(session, 1, id="w1")
        old = self.take(backend, ttl_s=10)
        lost = store.work.claim(old)
        assert lost is not None
        backend.clock.advance(10)
        new = self.take(backend, "bob")
        claim = store.work.claim(new)
        assert claim is not None
        assert [batch.id for batch in claim.batches] == ["w1"]
        assert claim.fence > lost.fence
        turn = store.turns.begin(new)
        turn.complete(lost)
        with backend.unchanged(session), pytest.raises(ClaimLost):
            turn.commit()

    @pytest.mark.promise(145)
    def test_completion_removes_exactly_the_claimed_batches(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        for n in (1, 2):
            store.work.enqueue(session, n, id=f"w{n}")
        lease = self.take(backend)
        claim = store.work.claim(lease)
        assert claim is not None
        with store.turns.begin(lease) as turn:
            turn.complete(claim)
        assert [batch.id for batch in store.work.list(session)] == ["w2"]

    @pytest.mark.promise(114, 145)
    def test_a_completed_claim_can_not_be_completed_again(self, backend: Bed, session: str) -> None:
        store = backend.store
        store.work.enqueue(session, 1)
        lease = self.take(backend)
        claim = store.work.claim(lease)
        assert claim is not None
        with store.turns.begin(lease) as turn:
            turn.complete(claim)
        again = store.turns.begin(lease)
        again.user("twice")
        again.complete(claim)
        with backend.unchanged(session), pytest.raises(ClaimLost):
            again.commit()

    def test_work_goes_with_its_session(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1)
        backend.store.sessions.purge(session)
        backend.store.sessions.create(id=session)
        assert backend.store.work.list(session) == []

    def test_recovery_names_claimed_work(self, backend: Bed, session: str) -> None:
        for n in (1, 2):
            backend.store.work.enqueue(session, n, id=f"w{n}")
        backend.store.work.claim(self.take(backend))
        found = backend.store.sessions.recovery(session)
        assert found is not None
        assert [batch.id for batch in found.claims] == ["w1"]
