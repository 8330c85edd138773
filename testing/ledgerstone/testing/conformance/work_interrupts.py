"""Interrupting a queue: what waits is superseded, what runs learns it at its next renewal."""

from __future__ import annotations

import pytest

from ledgerstone import user
from ledgerstone.errors import ClaimLost, SessionDeleted, SessionNotFound, WorkInterrupted
from ledgerstone.records.work import WorkCounts
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import OnASession, claimed, complete, names, take
from ledgerstone.testing.conformance.work_claims import JOIN, fill
from ledgerstone.testing.conformance.work_ended import ended
from ledgerstone.testing.conformance.work_parking import unknown


class TestInterrupting(OnASession):
    @pytest.mark.promise(207)
    def test_what_waits_is_superseded_and_the_epoch_rises(self, backend: Bed, session: str) -> None:
        fill(backend, 2)
        backend.store.work.enqueue(session, 3, id="later", delay_s=60)
        backend.store.work.enqueue(session, 4, id="mail", queue="mail")
        backend.clock.advance(1)
        found = backend.store.work.interrupt(session, reason="another question")
        assert (found.session, found.epoch, found.superseded) == (session, 1, 4)
        assert found.running == []
        backend.reopen()
        assert backend.store.work.list(session) == []
        assert backend.store.work.take() is None
        records = backend.store.work.ended("superseded").items
        assert [one.id for one in records] == sorted(["w1", "w2", "later", "mail"])
        assert {one.reason for one in records} == {"another question"}
        assert {one.ended_us for one in records} == {backend.clock.now_us()}
        assert backend.store.work.counts(session) == WorkCounts(superseded=4, epoch=1)
        assert backend.store.admin.verify().defects == []

    @pytest.mark.promise(207)
    def test_the_epoch_rises_every_time(self, backend: Bed, session: str) -> None:
        assert [backend.store.work.interrupt(session).epoch for _ in range(3)] == [1, 2, 3]
        backend.reopen()
        assert backend.store.work.interrupt(session).epoch == 4
        assert backend.store.work.counts(session) == WorkCounts(epoch=4)

    @pytest.mark.promise(207)
    def test_what_comes_after_is_claimed(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1, id="w1", key="k")
        backend.store.work.interrupt(session)
        backend.store.work.enqueue(session, 2, id="w2", key="k")
        taken = backend.store.work.take()
        assert taken is not None
        assert names(taken.claim) == ["w2"]

    @pytest.mark.promise(207)
    def test_other_sessions_go_on(self, backend: Bed, session: str) -> None:
        backend.store.messages.append("other", user("hi"), create=True)
        backend.store.work.enqueue("other", 1, id="w1")
        before = backend.store.work.list("other")
        backend.store.work.interrupt(session)
        assert backend.store.work.list("other") == before
        assert backend.store.work.counts("other") == WorkCounts()

    @pytest.mark.promise(207)
    def test_the_running_claim_learns_it_when_it_is_renewed(
        self, backend: Bed, session: str
    ) -> None:
        fill(backend, 2, **JOIN)
        lease = take(backend)
        claim = claimed(backend, lease, ids=["w2"])
        found = backend.store.work.interrupt(session, reason="stop")
        assert (found.superseded, names(found.running)) == (1, ["w2"])
        assert [batch.superseded for batch in found.running] == ["stop"]
        assert backend.store.work.list(session) == found.running
        with backend.unchanged(session), pytest.raises(WorkInterrupted) as met:
            backend.store.work.renew(claim)
        assert isinstance(met.value, ClaimLost)
        assert (met.value.session, met.value.claim, met.value.reason) == (session, claim.id, "stop")

    @pytest.mark.promise(207)
    def test_the_running_claim_may_still_be_completed(self, backend: Bed, session: str) -> None:
        fill(backend, 1)
        lease = take(backend)
        claim = claimed(backend, lease)
        backend.store.work.interrupt(session)
        complete(backend, lease, claim)
        assert backend.store.work.counts(session) == WorkCounts(done=1, epoch=1)
        assert backend.store.work.list(session) == []

    @pytest.mark.promise(207)
    @pytest.mark.parametrize("way", ["abandon", "fail", "bury", "park"])
    def test_what_comes_back_is_superseded(self, backend: Bed, session: str, way: str) -> None:
        left = unknown(backend)
        fill(backend, 1)
        lease = take(backend)
        claim = claimed(backend, lease)
        backend.store.work.interrupt(session, reason="stop")
        work = backend.store.work
        if way == "abandon":
            assert work.abandon(claim)
        elif way == "park":
            assert work.park(claim, waiting_for=left) == []
        else:
            assert work.fail(claim, "no luck", bury=way == "bury") == []
        (record,) = work.ended("superseded")
        assert (record.id, record.reason, record.batch.claim) == ("w1", "stop", None)
        assert (work.list(session), work.dead().items) == ([], [])
        assert work.claim(lease) is None
        assert backend.store.admin.verify().defects == []

    @pytest.mark.promise(207)
    def test_nobody_takes_over_what_ran(self, backend: Bed, session: str) -> None:
        fill(backend, 1)
        lease = take(backend, ttl_s=10)
        claim = claimed(backend, lease, ttl_s=10)
        backend.store.work.interrupt(session, reason="stop")
        backend.clock.advance(20)
        assert backend.store.work.take() is None
        assert ended(backend, "superseded") == ["w1"]
        assert not backend.store.work.abandon(claim)
        assert backend.store.work.list(session) == []
        assert backend.store.admin.verify().defects == []

    @pytest.mark.promise(207)
    def test_a_claim_that_ran_out_does_not_count_as_running(
        self, backend: Bed, session: str
    ) -> None:
        fill(backend, 1)
        claimed(backend, take(backend, ttl_s=10), ttl_s=10)
        backend.clock.advance(20)
        found = backend.store.work.interrupt(session)
        assert (found.superseded, found.running) == (1, [])

    @pytest.mark.promise(207)
    def test_what_waits_for_a_decision_is_superseded_too(self, backend: Bed, session: str) -> None:
        left = unknown(backend)
        fill(backend, 1)
        lease = take(backend)
        backend.store.work.park(claimed(backend, lease), waiting_for=left)
        assert backend.store.work.interrupt(session).superseded == 1
        backend.store.executions.finish(left, result=1)
        assert backend.store.work.list(session) == []

    @pytest.mark.promise(207)
    def test_a_session_must_be_there(self, backend: Bed, session: str) -> None:
        with pytest.raises(SessionNotFound):
            backend.store.work.interrupt("unknown")
        backend.store.sessions.delete(session)
        with backend.unchanged(session), pytest.raises(SessionDeleted):
            backend.store.work.interrupt(session)

    @pytest.mark.promise(207)
    def test_leaving_a_block_of_interrupted_work_supersedes_it(
        self, backend: Bed, session: str
    ) -> None:
        fill(backend, 1)
        with backend.store.work.hold():
            backend.store.work.interrupt(session)
        assert ended(backend, "superseded") == ["w1"]
        assert backend.store.leases.get(session) is None
