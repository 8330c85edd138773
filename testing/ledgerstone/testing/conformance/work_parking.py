"""Work that met a tool call without an outcome waits for a decision, and costs no attempt."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ledgerstone import Execution
from ledgerstone.errors import (
    ClaimLost,
    ExecutionNotFound,
    ExecutionUnresolved,
    InvalidValue,
    SessionBindingMismatch,
)
from ledgerstone.records.work import Batch, Claim
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.executions import CALL
from ledgerstone.testing.conformance.work import OnASession, claimed, complete, names, take
from ledgerstone.testing.conformance.work_stuck import explained, reasons


def unknown(backend: Bed, session: str = "s") -> Execution:
    """A call that a dead worker left without an outcome."""
    lease = backend.store.leases.take(session, owner="dead", ttl_s=1)
    assert lease is not None
    started = backend.store.executions.start(lease, **CALL)
    backend.clock.advance(2)
    found = backend.store.executions.get(started)
    assert found is not None
    assert found.status == "unknown"
    return found


def taken(backend: Bed, queue: str = "default") -> Claim | None:
    """What a worker gets; its lease is given back at once."""
    found = backend.store.work.take(queue=queue)
    if found is None:
        return None
    backend.store.leases.release(found.lease)
    return found.claim


def listed(backend: Bed, id: str = "w1", session: str = "s") -> Batch:
    return next(one for one in backend.store.work.list(session) if one.id == id)


class TestParking(OnASession):
    @pytest.fixture
    def left(self, backend: Bed, session: str) -> Execution:
        return unknown(backend)

    def park(self, backend: Bed, left: Execution, **how: Any) -> list[Batch]:
        """A worker takes the work, meets the call, and puts the work aside."""
        found = backend.store.work.take(**how)
        assert found is not None
        with pytest.raises(ExecutionUnresolved) as met:
            backend.store.executions.start(found.lease, **CALL)
        batches = backend.store.work.park(found.claim, waiting_for=met.value)
        assert {batch.waiting_for for batch in batches} == {left.id}
        backend.store.leases.release(found.lease)
        return batches

    def test_it_costs_no_attempt_and_nobody_gets_it(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        backend.store.work.enqueue(session, 1, id="w1", max_attempts=1)
        self.park(backend, left)
        for _ in range(2):
            batch = listed(backend)
            assert (batch.waiting_for, batch.attempts, batch.claim) == (left.id, 0, None)
            assert (batch.claim_fence, batch.available_us) == (0, 0)
            assert names(backend.store.work.list(session, pending=True)) == ["w1"]
            assert taken(backend) is None
            assert backend.store.work.claim(take(backend, ttl_s=1)) is None
            backend.clock.advance(100_000)
            assert taken(backend) is None
            backend.reopen()
        assert backend.store.admin.verify().defects == []

    @pytest.mark.parametrize("decision", ["result", "error", "retry", "later", "commit"])
    def test_it_wakes_with_the_decision(
        self, backend: Bed, session: str, left: Execution, decision: str
    ) -> None:
        backend.store.work.enqueue(session, 1, id="w1", max_attempts=1)
        self.park(backend, left)
        calls = backend.store.executions
        if decision == "commit":
            turn = backend.store.turns.begin(session)
            turn.execution(left, result="paid")
            turn.commit()
        elif decision in ("retry", "later"):
            calls.retry(left, later=decision == "later")
        elif decision == "error":
            calls.finish(left, error="told")
        else:
            calls.finish(left, result="told")
        batch = listed(backend)
        assert (batch.waiting_for, batch.attempts) == (None, 0)
        claim = taken(backend)
        assert claim is not None
        assert names(claim) == ["w1"]
        assert claim.batches[0].attempts == 1
        assert backend.store.admin.verify().defects == []

    def test_another_decision_does_not_wake_it(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        backend.store.work.enqueue(session, 1, id="w1")
        self.park(backend, left)
        other = backend.store.executions.start(session, call_id="c2", tool="look")
        backend.store.executions.finish(other, result=1)
        assert taken(backend) is None
        # Nor does one that was refused.
        with pytest.raises(ExecutionNotFound):
            backend.store.executions.finish("nowhere", result=1)
        assert listed(backend).waiting_for == left.id

    def test_a_decision_between_the_error_and_the_parking_is_not_lost(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        backend.store.work.enqueue(session, 1, id="w1", max_attempts=1)
        found = backend.store.work.take()
        assert found is not None
        backend.store.executions.finish(left, result="paid")
        (batch,) = backend.store.work.park(found.claim, waiting_for=left)
        assert (batch.waiting_for, batch.attempts) == (None, 0)
        backend.store.leases.release(found.lease)
        claim = taken(backend)
        assert claim is not None
        assert names(claim) == ["w1"]

    def test_deciding_and_parking_at_once_leaves_nothing_parked(
        self, backend: Bed, session: str
    ) -> None:
        for n in range(10):
            lease = take(backend, ttl_s=1)
            left = backend.store.executions.start(lease, call_id=f"c{n}", tool="pay")
            backend.clock.advance(2)
            backend.store.work.enqueue(session, n, id=f"w{n}")
            found = backend.store.work.take()
            assert found is not None
            with ThreadPoolExecutor(2) as pool:
                finished = pool.submit(backend.store.executions.finish, left, result=n)
                parked = pool.submit(backend.store.work.park, found.claim, waiting_for=left)
                finished.result()
                parked.result()
            assert [one.waiting_for for one in backend.store.work.list(session)] == [None]
            complete(backend, found.lease, claimed(backend, found.lease), release=True)

    def test_what_stands_behind_it_waits_too(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        store = backend.store
        store.work.enqueue(session, 1, id="w1")
        store.work.enqueue(session, 2, id="w2")
        self.park(backend, left)
        store.work.enqueue(session, 3, id="w3")
        store.work.enqueue(session, 4, id="w4", queue="other")
        for queue in ("default", "other", "default"):
            assert taken(backend, queue) is None
        assert store.work.claim(take(backend, ttl_s=1)) is None
        backend.clock.advance(2)
        found = explained(backend, "parked")
        assert found.ids == ["w1", "w2", "w3", "w4"]
        assert left.id in found.detail
        assert found.until_us is None
        assert reasons(backend) == ["parked", "unresolved_execution"]
        store.executions.finish(left, result="paid")
        order = []
        while (claim := taken(backend)) is not None:
            order += names(claim)
            lease = take(backend, ttl_s=1)
            complete(backend, lease, claimed(backend, lease, queue="default"), release=True)
        assert order == ["w1", "w2", "w3"]
        assert taken(backend, "other") is not None

    def test_what_is_more_urgent_goes_before_it(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        backend.store.work.enqueue(session, 1, id="w1", slot="join", merge="payload")
        self.park(backend, left)
        backend.store.work.enqueue(session, 2, id="w2", slot="join", merge="payload")
        backend.store.work.enqueue(session, 3, id="w0", slot="join", merge="payload", priority=5)
        found = backend.store.work.take(max=5)
        assert found is not None
        assert names(found.claim) == ["w0"]
        complete(backend, found.lease, found.claim, release=True)
        assert backend.store.work.take(max=5) is None
        assert reasons(backend) == ["parked", "unresolved_execution"]

    def test_other_sessions_do_not_wait(self, backend: Bed, session: str, left: Execution) -> None:
        backend.store.work.enqueue(session, 1, id="w1")
        self.park(backend, left)
        backend.store.sessions.create(id="t")
        backend.store.work.enqueue("t", 1, id="t1")
        assert [one.reason for one in backend.store.work.stuck()] == ["ready", "parked"]
        claim = taken(backend)
        assert claim is not None
        assert names(claim) == ["t1"]

    def test_a_group_waits_and_wakes_together(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        for n in (1, 2, 3):
            backend.store.work.enqueue(session, n, id=f"w{n}", slot="join", merge="payload")
        assert names(self.park(backend, left, max=2)) == ["w1", "w2"]
        assert taken(backend) is None
        backend.store.executions.finish(left, error="never happened")
        found = backend.store.work.take(max=5)
        assert found is not None
        assert names(found.claim) == ["w1", "w2", "w3"]

    def test_a_parked_batch_can_be_cancelled(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        backend.store.work.enqueue(session, 1, id="w1")
        backend.store.work.enqueue(session, 2, id="w2", queue="other")
        self.park(backend, left)
        assert taken(backend, "other") is None
        gone = backend.store.work.cancel(session, "w1")
        assert gone is not None
        assert gone.waiting_for == left.id
        assert taken(backend, "other") is not None
        backend.store.executions.finish(left, result=1)
        assert names(backend.store.work.list(session)) == ["w2"]

    def test_deleting_its_execution_wakes_it(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        backend.store.work.enqueue(session, 1, id="w1")
        self.park(backend, left)
        backend.store.usage.delete(session)
        assert backend.store.executions.get(left) is None
        assert listed(backend).waiting_for is None
        assert taken(backend) is not None

    def test_vacuum_delete_and_restore_change_nothing(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        backend.store.work.enqueue(session, 1, id="w1")
        self.park(backend, left)
        backend.store.admin.vacuum(session)
        backend.store.sessions.delete(session)
        backend.store.sessions.restore(session)
        assert taken(backend) is None
        backend.store.executions.finish(left, result=1)
        assert taken(backend) is not None
        backend.store.sessions.purge(session)
        assert backend.store.work.list(session) == []
        assert backend.store.admin.verify().defects == []

    def test_only_the_owner_of_a_claim_parks_it(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        work = backend.store.work
        work.enqueue(session, 1, id="w1")
        found = work.take(ttl_s=1)
        assert found is not None
        with backend.unchanged(session), pytest.raises(ExecutionNotFound):
            work.park(found.claim, waiting_for="nowhere")
        with pytest.raises(InvalidValue):
            work.park(found.claim, waiting_for="")
        backend.store.sessions.create(id="t")
        other = unknown(backend, "t")
        found = work.take(owner="new")
        assert found is not None
        with backend.unchanged(session), pytest.raises(SessionBindingMismatch):
            work.park(found.claim, waiting_for=other)
        assert work.park(found.claim, waiting_for=left)[0].waiting_for == left.id
        with backend.unchanged(session), pytest.raises(ClaimLost):
            work.park(found.claim, waiting_for=left)
        with pytest.raises(ClaimLost):
            complete(backend, found.lease, found.claim)
        assert not work.abandon(found.claim)
        # A claim that a caller named like what parks a batch is not taken for it.
        assert work.claim(found.lease, id=f"execution:{left.id}") is None

    def test_a_block_that_meets_the_call_parks_its_work(
        self, backend: Bed, session: str, left: Execution
    ) -> None:
        backend.store.work.enqueue(session, 1, id="w1", max_attempts=1)
        with pytest.raises(ExecutionUnresolved), backend.store.work.hold(wait_s=0) as holding:
            backend.store.executions.start(holding.lease, **CALL)
        assert (listed(backend).waiting_for, listed(backend).attempts) == (left.id, 0)
        assert backend.store.work.dead().items == []


class TestPendingExecutions(OnASession):
    def test_who_starts_the_call_next_begins_it(self, backend: Bed, session: str) -> None:
        left = unknown(backend)
        pending = backend.store.executions.retry(left, later=True)
        assert (pending.status, pending.resolved, pending.attempts) == ("pending", False, 1)
        assert backend.store.executions.unresolved() == []
        assert backend.store.executions.unresolved(session=session) == []
        backend.reopen()
        lease = take(backend)
        begun = backend.store.executions.start(lease, **CALL)
        assert (begun.id, begun.key, begun.attempts) == (left.id, left.key, 2)
        assert (begun.status, begun.fence) == ("started", lease.fence)
        with pytest.raises(ExecutionUnresolved):
            backend.store.executions.start(lease, **CALL)
        with backend.store.executions.run(lease, call_id="c9", tool="look") as other:
            other.result = 1
        backend.store.executions.finish(left, result="paid", lease=lease)
        assert backend.store.admin.verify().defects == []

    def test_the_same_id_begins_it_too(self, backend: Bed, session: str) -> None:
        left = unknown(backend)
        backend.store.executions.retry(left, later=True)
        lease = take(backend)
        with backend.store.executions.run(lease, id=left.id, **CALL) as running:
            assert running.needs_run
            running.result = "paid"
        found = backend.store.executions.get(left)
        assert found is not None
        assert (found.status, found.attempts) == ("succeeded", 2)

    def test_it_may_be_decided_otherwise(self, backend: Bed, session: str) -> None:
        left = unknown(backend)
        backend.store.executions.retry(left, later=True)
        assert backend.store.executions.finish(left, error="no").status == "failed"
        assert backend.store.executions.retry(left, later=True).status == "pending"
        assert backend.store.executions.retry(left).attempts == 2

    def test_an_operator_decides_while_a_worker_has_the_session(
        self, backend: Bed, session: str
    ) -> None:
        left = unknown(backend)
        take(backend, owner="somebody")
        assert backend.store.executions.retry(left, later=True).status == "pending"
