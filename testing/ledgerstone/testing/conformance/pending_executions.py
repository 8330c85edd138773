"""Executions that are written down before they begin."""

from __future__ import annotations

import pytest

from ledgerstone import tool_call
from ledgerstone.errors import AlreadyExists, Fenced, InvalidValue, LeaseHeld, SessionDeleted
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.executions import CALL, OnACall

__all__ = ["TestExecutionsBeforeTheirStart"]


@pytest.mark.promise(217)
class TestExecutionsBeforeTheirStart(OnACall):
    """`executions.start(..., pending=True)`, then a start that begins it."""

    def test_it_is_recorded_and_has_not_begun(self, backend: Bed, session: str) -> None:
        made = backend.store.executions.start(session, message="m2", pending=True, **CALL)
        assert (made.status, made.attempts, made.started_us, made.fence) == ("pending", 0, 0, None)
        assert (made.created_us, made.duration_ms) == (backend.clock.now_us(), 0)
        store = backend.reopen()
        assert self.get(backend, made) == made
        assert store.executions.list(session=session) == [made]
        assert store.executions.list(message="m2") == [made]
        assert store.executions.unresolved(session=session) == []
        assert backend.revision(session) == 1

    def test_the_next_start_of_the_call_begins_it(self, backend: Bed, session: str) -> None:
        made = backend.store.executions.start(session, pending=True, **CALL)
        backend.clock.advance(3)
        lease = self.take(backend)
        begun = backend.store.executions.start(lease, **CALL)
        assert (begun.id, begun.key) == (made.id, made.key)
        assert (begun.status, begun.attempts, begun.fence) == ("started", 1, lease.fence)
        assert (begun.created_us, begun.started_us) == (made.created_us, backend.clock.now_us())
        backend.clock.advance(2)
        done = backend.store.executions.finish(begun, result=1, lease=lease)
        assert (done.status, done.duration_ms) == ("succeeded", 2000)

    def test_so_does_the_start_of_its_id(self, backend: Bed, session: str) -> None:
        backend.store.executions.start(session, id="x", pending=True, **CALL)
        begun = backend.store.executions.start(session, id="x", **CALL)
        assert (begun.status, begun.attempts) == ("started", 1)

    def test_and_the_block_around_a_call(self, backend: Bed, session: str) -> None:
        made = backend.store.executions.start(session, pending=True, **CALL)
        with backend.store.executions.run(session, **CALL) as running:
            assert running.id == made.id
            assert running.needs_run
            running.result = "paid"
        assert self.get(backend, made).result == "paid"

    def test_of_two_that_begin_it_once_one_is_told_to(self, backend: Bed, session: str) -> None:
        made = backend.store.executions.start(session, id="x", pending=True, **CALL)
        again = backend.store.executions.start(session, id="x", once=True, **CALL)
        assert again.status == "started"
        with pytest.raises(Exception, match=made.id):
            backend.store.executions.start(session, id="x", once=True, **CALL)

    def test_recorded_again_it_is_the_first_one(self, backend: Bed, session: str) -> None:
        start = backend.store.executions.start
        made = start(session, id="x", pending=True, **CALL)
        backend.clock.advance(1)
        assert start(session, id="x", pending=True, **CALL) == made
        assert start(session, pending=True, **CALL) == made
        with pytest.raises(AlreadyExists):
            start(session, id="x", pending=True, **{**CALL, "arguments": {"eur": 2}})

    def test_a_call_that_is_known_is_answered_as_it_stands(
        self, backend: Bed, session: str
    ) -> None:
        executions = backend.store.executions
        begun = executions.start(session, **CALL)
        assert executions.start(session, pending=True, **CALL) == begun
        assert executions.start(session, id=begun.id, pending=True, **CALL) == begun
        done = executions.finish(begun, result=1)
        assert executions.start(session, pending=True, **CALL) == done

    def test_it_may_be_finished_without_a_start(self, backend: Bed, session: str) -> None:
        executions = backend.store.executions
        made = executions.start(session, pending=True, **CALL)
        backend.clock.advance(60)
        done = executions.finish(made, error="never called")
        assert (done.status, done.duration_ms, done.attempts) == ("failed", 0, 0)
        other = executions.start(session, call_id="c2", tool="pay", arguments={}, pending=True)
        assert executions.finish(other, result=1, duration_ms=7).duration_ms == 7

    def test_a_retry_begins_it_too(self, backend: Bed, session: str) -> None:
        made = backend.store.executions.start(session, pending=True, **CALL)
        assert backend.store.executions.retry(made).attempts == 1

    def test_it_counts_as_a_call_without_an_outcome(self, backend: Bed, session: str) -> None:
        store = backend.store
        made = store.executions.start(session, pending=True, **CALL)
        stats = store.sessions.stats(session)
        assert (stats.tool_calls, stats.tool_calls_succeeded, stats.tool_calls_failed) == (1, 0, 0)
        store.executions.finish(store.executions.start(session, **CALL), result=1)
        stats = store.sessions.stats(session)
        assert (stats.tool_calls, stats.tool_calls_succeeded) == (1, 1)
        assert made.attempts == 0
        assert store.admin.verify().ok

    def test_a_ticket_is_kept_with_it(self, backend: Bed, session: str) -> None:
        store = backend.store
        with store.turns.begin(session) as turn:
            turn.assistant([tool_call("book", {}, id="c2")])
            ticket = turn.ask("c2")
        store.tickets.resolve(ticket, "approve", by="ada")
        made = store.executions.start(session, ticket=ticket, pending=True)
        assert (made.status, made.ticket, made.tool) == ("pending", ticket.id, "book")
        begun = store.executions.start(session, ticket=ticket)
        assert (begun.id, begun.status) == (made.id, "started")

    def test_who_may_write_may_record_it(self, backend: Bed, session: str) -> None:
        start = backend.store.executions.start
        lease = self.take(backend)
        with pytest.raises(LeaseHeld):
            start(session, pending=True, **CALL)
        assert start(lease, pending=True, **CALL).status == "pending"
        backend.clock.advance(11)
        self.take(backend, "w2")
        with pytest.raises(Fenced):
            start(lease, call_id="c2", tool="pay", pending=True)
        backend.clock.advance(11)
        backend.store.sessions.delete(session)
        with pytest.raises(SessionDeleted):
            start(session, call_id="c2", tool="pay", pending=True)
        with pytest.raises(InvalidValue, match="pending"):
            start(session, pending=1, **CALL)  # type: ignore[arg-type]
