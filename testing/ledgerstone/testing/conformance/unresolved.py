"""Tool calls of which nobody knows the outcome, and the block that keeps them few."""

from __future__ import annotations

import pytest

from ledgerstone import Execution
from ledgerstone.errors import (
    ExecutionResolved,
    ExecutionUnresolved,
    Fenced,
    InvalidValue,
    LeaseExpired,
    LeaseHeld,
    SessionBindingMismatch,
)
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.executions import CALL, Crash, OnACall


class TestUnresolvedExecutions(OnACall):
    def dies(self, backend: Bed) -> Execution:
        """A worker starts a call and is never heard of again."""
        lease = self.take(backend)
        started = backend.store.executions.start(lease, **CALL)
        assert self.get(backend, started).status == "started"
        backend.clock.advance(11)
        backend.reopen()
        return self.get(backend, started)

    def test_what_a_dead_worker_started_is_unknown(self, backend: Bed, session: str) -> None:
        left = self.dies(backend)
        assert (left.status, left.resolved) == ("unknown", False)
        assert backend.store.executions.unresolved() == [left]
        assert backend.store.executions.unresolved(session=session) == [left]
        recovery = backend.store.sessions.recovery(session)
        assert recovery is not None
        assert recovery.executions == [left]
        assert recovery.needs == ["decide_executions"]

    def test_nobody_calls_it_again_by_accident(self, backend: Bed, session: str) -> None:
        left = self.dies(backend)
        lease = self.take(backend, "w2")
        for id in (None, "fresh", left.id):
            with backend.unchanged(session), pytest.raises(ExecutionUnresolved) as caught:
                backend.store.executions.start(lease, id=id, **CALL)
            assert (caught.value.execution, caught.value.call_id) == (left.id, "c1")
            with pytest.raises(ExecutionUnresolved):
                backend.store.executions.run(lease, id=id, **CALL).__enter__()

    def test_until_it_is_finished(self, backend: Bed, session: str) -> None:
        left = self.dies(backend)
        lease = self.take(backend, "w2")
        ended = backend.store.executions.finish(left, result="found it", lease=lease)
        assert backend.store.executions.start(lease, **CALL) == ended
        assert backend.store.executions.unresolved() == []

    def test_or_tried_again(self, backend: Bed, session: str) -> None:
        left = self.dies(backend)
        lease = self.take(backend, "w2")
        again = backend.store.executions.retry(left, lease=lease)
        assert (again.id, again.key, again.attempts) == (left.id, left.key, 2)
        assert (again.status, again.fence) == ("started", lease.fence)
        assert (again.created_us, again.started_us) == (left.created_us, backend.clock.now_us())
        with pytest.raises(ExecutionUnresolved):
            backend.store.executions.retry(left, lease=lease)
        ended = backend.store.executions.finish(left, result=1, lease=lease)
        assert (ended.status, ended.attempts) == ("succeeded", 2)
        with pytest.raises(ExecutionResolved):
            backend.store.executions.retry(left, lease=lease)

    def test_a_failed_one_may_be_tried_again(self, backend: Bed, session: str) -> None:
        started = backend.store.executions.start(session, **CALL)
        backend.store.executions.finish(started, error="down", duration_ms=5)
        again = backend.store.executions.retry(started)
        assert (again.status, again.error, again.duration_ms) == ("started", None, 0)
        assert (again.attempts, again.finished_us) == (2, None)

    def test_the_owner_may_still_be_at_it(self, backend: Bed, session: str) -> None:
        lease = self.take(backend)
        started = backend.store.executions.start(lease, **CALL)
        with pytest.raises(ExecutionUnresolved):
            backend.store.executions.start(lease, **CALL)
        with pytest.raises(LeaseHeld):
            backend.store.executions.retry(started)
        with pytest.raises(LeaseHeld):
            backend.store.executions.start(session, call_id="c2", tool="pay")
        backend.store.leases.release(lease)
        assert self.get(backend, started).status == "unknown"

    def test_a_zombie_can_not_write_its_outcome(self, backend: Bed, session: str) -> None:
        zombie = self.take(backend)
        started = backend.store.executions.start(zombie, **CALL)
        backend.clock.advance(11)
        with pytest.raises(LeaseExpired):
            backend.store.executions.finish(started, result=1, lease=zombie)
        lease = self.take(backend, "w2")
        backend.store.executions.retry(started, lease=lease)
        with pytest.raises(Fenced):
            backend.store.executions.finish(started, result=1, lease=zombie)
        with pytest.raises(Fenced):
            backend.store.executions.start(zombie, call_id="c2", tool="pay")
        assert self.get(backend, started).status == "started"

    def test_without_a_lease_nobody_can_tell(self, backend: Bed, session: str) -> None:
        started = backend.store.executions.start(session, **CALL)
        assert (self.get(backend, started).status, started.fence) == ("started", None)
        with pytest.raises(ExecutionUnresolved):
            backend.store.executions.start(session, **CALL)
        assert backend.store.executions.retry(started).attempts == 2

    def test_a_lease_of_another_session(self, backend: Bed, session: str) -> None:
        backend.store.sessions.create(id="other")
        lease = backend.store.leases.take("other", owner="w1")
        with pytest.raises(SessionBindingMismatch):
            backend.store.executions.start(session, lease=lease, **CALL)


class TestRunning(OnACall):
    def test_a_block_around_the_call(self, backend: Bed, session: str) -> None:
        lease = self.take(backend)
        with backend.store.executions.run(lease, message="m2", **CALL) as running:
            assert running.needs_run
            assert (running.tool, running.arguments) == ("pay", {"eur": 1})
            assert self.get(backend, running.id).status == "started"
            assert running.key == running.execution.key
            backend.clock.advance(2)
            running.result = {"receipt": 7}
        ended = self.get(backend, running.id)
        assert (ended.status, ended.result, ended.duration_ms) == (
            "succeeded",
            {"receipt": 7},
            2000,
        )

    def test_a_tool_without_a_result(self, backend: Bed, session: str) -> None:
        with backend.store.executions.run(session, **CALL) as running:
            pass
        ended = self.get(backend, running.id)
        assert (ended.status, ended.result) == ("succeeded", None)

    def test_an_exception_is_kept_and_goes_on(self, backend: Bed, session: str) -> None:
        with (
            pytest.raises(ValueError, match="no money"),
            backend.store.executions.run(session, **CALL) as running,
        ):
            raise ValueError("no money")
        ended = self.get(backend, running.id)
        assert (ended.status, ended.error) == ("failed", "ValueError: no money")
        with backend.store.executions.run(session, **CALL) as again:
            assert (again.needs_run, again.error) == (False, "ValueError: no money")

    @pytest.mark.parametrize("kind", [Crash, KeyboardInterrupt])
    def test_a_killed_block_leaves_it_open(
        self, backend: Bed, session: str, kind: type[BaseException]
    ) -> None:
        lease = self.take(backend)
        with pytest.raises(kind), backend.store.executions.run(lease, **CALL) as running:
            raise kind
        assert self.get(backend, running.id).status == "started"
        backend.clock.advance(11)
        assert self.get(backend, running.id).status == "unknown"

    def test_a_known_result_is_not_made_again(self, backend: Bed, session: str) -> None:
        for n in range(2):
            with backend.store.executions.run(session, id="x1", **CALL) as running:
                if running.needs_run:
                    assert n == 0
                    running.result = 5
            assert running.result == 5
        assert self.get(backend, "x1").attempts == 1

    def test_a_lost_lease_is_told_and_nothing_is_written(self, backend: Bed, session: str) -> None:
        lease = self.take(backend)
        running = backend.store.executions.run(lease, **CALL)
        running.__enter__()
        backend.clock.advance(11)
        self.take(backend, "w2")
        with pytest.raises(Fenced):
            running.__exit__(None, None, None)
        assert self.get(backend, running.id).status == "unknown"

    def test_a_result_that_is_not_json(self, backend: Bed, session: str) -> None:
        with (
            pytest.raises(InvalidValue) as caught,
            backend.store.executions.run(session, **CALL) as running,
        ):
            running.result = object()
        assert caught.value.field == "result"
        assert not self.get(backend, running.id).resolved

    def test_nothing_is_known_before_the_block(self, backend: Bed, session: str) -> None:
        running = backend.store.executions.run(session, **CALL)
        with pytest.raises(RuntimeError):
            _ = running.id
        assert backend.store.executions.list(session=session) == []
