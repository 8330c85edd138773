"""Work that comes with a commit: all of it or nothing, here or in another session."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import user
from ledgerstone.commands.work import PeekWork
from ledgerstone.errors import (
    ClaimLost,
    InvalidValue,
    RevisionMoved,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import OnASession, claimed, names, take

S = 1_000_000


class TestWorkOfATurn(OnASession):
    @pytest.fixture
    def other(self, backend: Bed) -> str:
        backend.store.sessions.create(id="other")
        return "other"

    def test_it_is_queued_with_the_commit_and_not_before(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session)
        turn.assistant("I will do that")
        id = turn.enqueue({"do": 1}, {"do": 2}, priority=3, key="k")
        assert backend.store.work.list(session) == []
        turn.commit()
        (batch,) = backend.reopen().work.list(session)
        assert (batch.id, batch.payloads, batch.priority) == (id, [{"do": 1}, {"do": 2}], 3)
        assert (batch.source_key, batch.enqueued_us) == ("k", backend.clock.now_us())
        assert backend.texts(session) == ["hi", "I will do that"]

    def test_a_turn_may_be_nothing_but_work(self, backend: Bed, session: str) -> None:
        with backend.store.turns.begin(session) as turn:
            turn.enqueue(1, id="w1")
        assert names(backend.store.work.list(session)) == ["w1"]
        assert backend.revision(session) == 2

    def test_the_delay_counts_from_the_commit(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session)
        turn.enqueue(1, delay_s=30)
        backend.clock.advance(100)
        turn.commit()
        (batch,) = backend.store.work.list(session)
        assert batch.available_us == backend.clock.now_us() + 30 * S

    def test_a_commit_that_fails_queues_nothing(
        self, backend: Bed, session: str, other: str
    ) -> None:
        turn = backend.store.turns.begin(session, expected_revision=7)
        turn.enqueue("here")
        turn.enqueue("there", session=other)
        with backend.unchanged(session), backend.unchanged(other), pytest.raises(RevisionMoved):
            turn.commit()

    def test_a_repeated_commit_queues_once(self, backend: Bed, session: str, other: str) -> None:
        for _ in range(3):
            turn = backend.store.turns.begin(session, id="t1")
            turn.enqueue("here")
            turn.enqueue("there", session=other)
            turn.commit()
        assert len(backend.store.work.list(session)) == 1
        assert len(backend.reopen().work.list(other)) == 1

    def test_a_key_that_is_queued_keeps_its_batch(self, backend: Bed, session: str) -> None:
        first = backend.store.work.enqueue(session, "first", key="k")
        with backend.store.turns.begin(session) as turn:
            turn.user("again")
            turn.enqueue("second", key="k")
        assert backend.store.work.list(session) == [first]

    @pytest.mark.parametrize("name", ["id", "key"])
    def test_two_of_one_name_are_one(self, backend: Bed, session: str, name: str) -> None:
        named: dict[str, Any] = {name: "w1"}
        with backend.store.turns.begin(session) as turn:
            turn.enqueue("first", delay_s=30, priority=5, **named)
            turn.enqueue("second", priority=1, **named)
            turn.enqueue("third", id="w2", delay_s=40, priority=9)
        first, third = backend.store.work.list(session)
        assert (first.payloads, third.payloads) == (["first"], ["third"])
        due = backend.ask(PeekWork(tenant="default", queue="default"))
        assert due == first.available_us == backend.clock.now_us() + 30 * S

    def test_it_reaches_another_session(self, backend: Bed, session: str, other: str) -> None:
        lease = take(backend)
        turn = backend.store.turns.begin(lease)
        turn.assistant("passing it on")
        id = turn.enqueue({"from": session}, session=other, queue="mail")
        turn.commit(release=True)
        assert backend.store.work.list(session) == []
        taken = backend.store.work.take(queue="mail")
        assert taken is not None
        assert (taken.lease.session, names(taken.claim)) == (other, [id])
        assert backend.revision(other) == 0

    def test_another_session_may_be_owned_by_somebody(
        self, backend: Bed, session: str, other: str
    ) -> None:
        lease = take(backend, other, owner="bob")
        with backend.store.turns.begin(session) as turn:
            turn.enqueue(1, session=other, id="w1")
        assert names(claimed(backend, lease)) == ["w1"]

    def test_several_targets_keep_the_order(self, backend: Bed, session: str, other: str) -> None:
        with backend.store.turns.begin(session) as turn:
            for n in range(4):
                turn.enqueue(n, session=other if n % 2 else None, id=f"w{n}")
        assert names(backend.store.work.list(session)) == ["w0", "w2"]
        assert names(backend.store.work.list(other)) == ["w1", "w3"]

    def test_a_target_that_is_not_there_fails_the_commit(
        self, backend: Bed, session: str, other: str
    ) -> None:
        turn = backend.store.turns.begin(session)
        turn.user("lost")
        turn.enqueue(1, session="nowhere")
        with backend.unchanged(session), pytest.raises(SessionNotFound):
            turn.commit()
        backend.store.sessions.delete(other)
        turn = backend.store.turns.begin(session)
        turn.enqueue(0)
        turn.enqueue(1, session=other)
        with backend.unchanged(session), backend.unchanged(other), pytest.raises(SessionDeleted):
            turn.commit()

    def test_a_new_session_may_begin_with_work(self, backend: Bed) -> None:
        turn = backend.store.turns.begin("new", create=True)
        turn.user("hello")
        turn.enqueue("greet", id="w1")
        turn.commit()
        taken = backend.store.work.take()
        assert taken is not None
        assert (taken.lease.session, names(taken.claim)) == ("new", ["w1"])

    @pytest.mark.promise(145)
    def test_one_batch_is_done_and_the_next_is_queued(self, backend: Bed, session: str) -> None:
        """A chain of steps: at every moment exactly one of them is there."""
        backend.store.work.enqueue(session, 1, id="w1", key="step")
        for n in range(1, 4):
            backend.clock.advance(1)
            taken = backend.store.work.take()
            assert taken is not None
            assert taken.claim.payloads == [n]
            turn = backend.store.turns.begin(taken.lease)
            turn.complete(taken.claim)
            turn.enqueue(n + 1, id=f"w{n + 1}", key="step")
            turn.commit(release=True)
            assert names(backend.store.work.list(session)) == [f"w{n + 1}"]

    @pytest.mark.promise(114, 145)
    def test_a_lost_claim_queues_nothing(self, backend: Bed, session: str, other: str) -> None:
        backend.store.work.enqueue(session, 1)
        lease = take(backend)
        claim = claimed(backend, lease)
        backend.store.work.abandon(claim)
        turn = backend.store.turns.begin(lease)
        turn.complete(claim)
        turn.enqueue(2, session=other)
        with backend.unchanged(session), backend.unchanged(other), pytest.raises(ClaimLost):
            turn.commit()

    def test_no_tenant_reaches_another(self, backend: Bed, session: str) -> None:
        theirs = backend.open("other")
        theirs.messages.append("t", user("hi"), create=True)
        turn = theirs.turns.begin("t")
        turn.enqueue(1, session=session)
        with backend.unchanged(session), pytest.raises(SessionNotFound):
            turn.commit()

    def test_the_other_session_is_named_as_text(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session)
        with pytest.raises(InvalidValue):
            turn.enqueue(1, session=["other"])  # type: ignore[arg-type]
