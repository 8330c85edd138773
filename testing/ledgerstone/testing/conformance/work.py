"""The queue of a session: what goes in, what is listed, what is taken out again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from ledgerstone import user
from ledgerstone.api_sync.store import Store
from ledgerstone.clock import to_datetime
from ledgerstone.commands import Command, Query
from ledgerstone.errors import (
    ClaimLost,
    NotSupported,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.records.leases import Lease
from ledgerstone.records.work import Batch, Claim
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.wrappers import Wrapper

A = TypeVar("A")
S = 1_000_000
WORK_COMMANDS = "ledgerstone.commands.work"


def take(backend: Bed, session: str = "s", owner: str = "ann", ttl_s: float = 60) -> Lease:
    lease = backend.store.leases.take(session, owner=owner, ttl_s=ttl_s)
    assert lease is not None
    return lease


def claimed(backend: Bed, lease: Lease, **how: Any) -> Claim:
    claim = backend.store.work.claim(lease, **how)
    assert claim is not None
    return claim


def complete(backend: Bed, lease: Lease, claim: Claim, *, release: bool = False) -> None:
    turn = backend.store.turns.begin(lease)
    turn.complete(claim)
    turn.commit(release=release)


def names(batches: Sequence[Batch] | Claim) -> list[str]:
    """The ids of batches: the shortest way to say which ones."""
    found = batches.batches if isinstance(batches, Claim) else batches
    return [batch.id for batch in found]


class OnASession:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        backend.store.messages.append("s", user("hi"), create=True)
        return "s"


class TestEnqueueing(OnASession):
    @pytest.mark.promise(131)
    def test_work_is_kept_with_its_payloads_in_order(self, backend: Bed, session: str) -> None:
        payloads = [{"n": 1}, "two", None, [3]]
        made = backend.store.work.enqueue(session, *payloads, id="w1")
        backend.reopen()
        assert backend.store.work.list(session) == [made]
        assert (made.session, made.id, made.payloads, made.claim) == (session, "w1", payloads, None)
        assert made.items == [(f"w1/{n}", payload) for n, payload in enumerate(payloads)]

    @pytest.mark.promise(131, 133)
    def test_batches_are_listed_in_the_order_they_came(self, backend: Bed, session: str) -> None:
        for n in (3, 1, 2):
            backend.store.work.enqueue(session, n, id=f"w{n}", priority=n)
        listed = backend.store.work.list(session)
        assert names(listed) == ["w3", "w1", "w2"]
        seqs = [batch.enqueue_seq for batch in listed]
        assert seqs == sorted(set(seqs))

    @pytest.mark.promise(131)
    def test_everything_said_about_a_batch_is_kept(self, backend: Bed, session: str) -> None:
        made = backend.store.work.enqueue(
            session,
            {"do": "it"},
            key="k",
            id="w1",
            queue="mail",
            delivery="earliest_safe_boundary",
            slot="join",
            merge="group:letters",
            priority=7,
            delay_s=30,
            max_attempts=None,
            backoff_s=2.5,
        )
        now = backend.clock.now_us()
        expected = Batch(
            session=session,
            id="w1",
            enqueue_seq=made.enqueue_seq,
            payloads=[{"do": "it"}],
            source_key="k",
            queue="mail",
            delivery="earliest_safe_boundary",
            slot="join",
            merge="group:letters",
            priority=7,
            available_us=now + 30 * S,
            max_attempts=None,
            backoff_us=2_500_000,
            enqueued_us=now,
        )
        backend.reopen()
        assert backend.store.work.list(session) == [made] == [expected]

    def test_the_later_of_a_moment_and_a_delay_counts(self, backend: Bed, session: str) -> None:
        now = backend.clock.now_us()
        enqueue = backend.store.work.enqueue
        assert enqueue(session, 1).available_us == 0
        assert enqueue(session, 2, available_at=now + 5 * S).available_us == now + 5 * S
        at = to_datetime(now + 5 * S)
        assert enqueue(session, 3, available_at=at, delay_s=9).available_us == now + 9 * S
        assert enqueue(session, 4, available_at=at, delay_s=2).available_us == now + 5 * S

    @pytest.mark.promise(132)
    def test_the_same_key_while_queued_is_the_existing_batch(
        self, backend: Bed, session: str
    ) -> None:
        first = backend.store.work.enqueue(session, "one", key="k")
        with backend.unchanged(session):
            assert backend.store.work.enqueue(session, "other", key="k", priority=1) == first

    @pytest.mark.promise(132)
    def test_a_claimed_batch_still_has_its_key(self, backend: Bed, session: str) -> None:
        first = backend.store.work.enqueue(session, "one", key="k")
        claimed(backend, take(backend))
        assert backend.store.work.enqueue(session, "two", key="k").id == first.id

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
        lease = take(backend)
        complete(backend, lease, claimed(backend, lease))
        second = store.work.enqueue(session, "two", key="k")
        assert second.id != first.id
        assert second.enqueue_seq > first.enqueue_seq

    def test_the_same_batch_again_is_the_first_one(self, backend: Bed, session: str) -> None:
        first = backend.store.work.enqueue(session, "one", id="w1")
        with backend.unchanged(session):
            assert backend.store.work.enqueue(session, "one", id="w1") == first

    def test_work_moves_no_revision_and_needs_no_lease(self, backend: Bed, session: str) -> None:
        take(backend)
        backend.store.work.enqueue(session, "one")
        assert backend.revision(session) == 1

    def test_where_work_can_not_go(self, backend: Bed, session: str) -> None:
        with pytest.raises(SessionNotFound):
            backend.store.work.enqueue("nowhere", 1)
        backend.store.sessions.delete(session)
        with pytest.raises(SessionDeleted):
            backend.store.work.enqueue(session, 1)

    @pytest.mark.promise(147)
    def test_the_queue_survives_a_reopening(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, "one", id="w1")
        lease = take(backend)
        claim = claimed(backend, lease, id="c1")
        backend.store.work.enqueue(session, "two", id="w2", delay_s=60)
        backend.reopen()
        found = [(b.id, b.claim) for b in backend.store.work.list(session)]
        assert found == [("w1", "c1"), ("w2", None)]
        assert backend.store.work.claim(lease, id="c1") == claim
        complete(backend, lease, claim)
        assert names(backend.reopen().work.list(session)) == ["w2"]


class TestPending(OnASession):
    @pytest.mark.promise(133, 134)
    def test_claimed_work_is_listed_but_not_pending(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        for n in (1, 2):
            work.enqueue(session, n, id=f"w{n}")
        claimed(backend, take(backend))
        assert names(work.list(session)) == ["w1", "w2"]
        assert names(work.list(session, pending=True)) == ["w2"]

    @pytest.mark.promise(134)
    def test_a_claim_lives_as_long_as_its_lease_or_itself(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        work.enqueue(session, 1, id="w1")
        claimed(backend, take(backend, ttl_s=10), ttl_s=20)
        backend.clock.advance(10)
        assert work.list(session, pending=True) == []
        backend.clock.advance(10)
        assert names(work.list(session, pending=True)) == ["w1"]

    @pytest.mark.promise(134)
    def test_under_a_live_lease_no_claim_expires(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        work.enqueue(session, 1, id="w1")
        lease = take(backend, ttl_s=60)
        claim = claimed(backend, lease, ttl_s=5)
        backend.clock.advance(30)
        assert work.list(session, pending=True) == []
        complete(backend, lease, claim)
        assert work.list(session) == []

    def test_an_unknown_session_has_no_work(self, backend: Bed) -> None:
        assert backend.store.work.list("nowhere") == []
        assert backend.store.work.list("nowhere", pending=True) == []


class TestCancelling(OnASession):
    @pytest.mark.promise(144)
    def test_a_batch_nobody_works_on_is_removed_and_answered(
        self, backend: Bed, session: str
    ) -> None:
        work = backend.store.work
        first, second = (work.enqueue(session, n, id=f"w{n}") for n in (1, 2))
        assert work.cancel(session, "w1") == first
        assert work.cancel(session, "w1") is None
        assert work.cancel(second) == second
        assert work.list(session) == []
        assert work.take() is None

    @pytest.mark.promise(144)
    def test_what_is_missing_or_being_worked_on_stays(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        work.enqueue(session, 1, id="w1")
        backend.store.sessions.create(id="other")
        claimed(backend, take(backend))
        with backend.unchanged(session):
            assert work.cancel(session, "w1") is None
            assert work.cancel(session, "w9") is None
            assert work.cancel("other", "w1") is None
            assert work.cancel("nowhere", "w1") is None

    @pytest.mark.promise(144)
    def test_an_expired_claim_does_not_protect(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        work.enqueue(session, 1, id="w1")
        lease = take(backend, ttl_s=10)
        claim = claimed(backend, lease, ttl_s=10)
        backend.clock.advance(10)
        cancelled = work.cancel(session, "w1")
        assert cancelled is not None
        assert cancelled.id == "w1"
        with pytest.raises(ClaimLost):
            work.renew(claim)

    def test_a_key_is_free_again_when_its_batch_is_cancelled(
        self, backend: Bed, session: str
    ) -> None:
        work = backend.store.work
        first = work.enqueue(session, 1, key="k")
        work.cancel(first)
        assert work.enqueue(session, 1, key="k").id != first.id


class WithoutAQueue(Wrapper):
    """A backend whose author left the queue out."""

    def write(self, command: Command[A]) -> A:
        self._refuse(command)
        return self.inner.write(command)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        for query in queries:
            self._refuse(query)
        return self.inner.read(queries)

    def _refuse(self, asked: object) -> None:
        settles = getattr(asked, "enqueue", ()) or getattr(asked, "complete", ())
        if type(asked).__module__ == WORK_COMMANDS or settles:
            raise NotSupported("work", "a backend without a queue")


class TestWithoutAQueue(OnASession):
    @pytest.mark.promise(146)
    def test_work_is_refused_loudly(self, backend: Bed, session: str) -> None:
        store = Store(WithoutAQueue(backend.port), clock=backend.clock)
        lease = take(backend)
        turn = store.turns.begin(session, lease=lease)
        turn.enqueue(1)
        calls: list[Callable[[], object]] = [
            lambda: store.work.enqueue(session, 1),
            lambda: store.work.claim(lease),
            store.work.take,
            lambda: store.work.hold(wait_s=0).__enter__(),
            store.work.dead,
            store.work.stuck,
            turn.commit,
        ]
        for call in calls:
            with backend.unchanged(session), pytest.raises(NotSupported) as caught:
                call()
            assert caught.value.capability == "work"

    @pytest.mark.promise(146)
    def test_there_is_nothing_to_list_or_to_end(self, backend: Bed, session: str) -> None:
        store = Store(WithoutAQueue(backend.port), clock=backend.clock)
        backend.store.work.enqueue(session, 1, id="w1")
        claim = claimed(backend, take(backend))
        assert store.work.list(session) == []
        assert store.work.list(session, pending=True) == []
        assert store.work.cancel(session, "w1") is None
        assert store.work.abandon(claim) is False
        with pytest.raises(ClaimLost) as caught:
            store.work.renew(claim)
        assert (caught.value.session, caught.value.claim) == (session, claim.id)
