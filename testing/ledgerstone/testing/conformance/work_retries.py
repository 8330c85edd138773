"""Work that fails: later attempts, the end of patience, dead letters and their return."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone.errors import AlreadyExists, BatchNotFound, ClaimLost, InvalidValue, SessionDeleted
from ledgerstone.records.work import Batch, DeadBatch
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import OnASession, claimed, complete, names, take

S = 1_000_000


def fail_once(backend: Bed, session: str = "s", error: str = "no luck", **how: Any) -> list[Batch]:
    """A worker comes, claims, fails and leaves."""
    lease = take(backend, session)
    answer = backend.store.work.fail(claimed(backend, lease), error, **how)
    backend.store.leases.release(lease)
    return answer


def bury(backend: Bed, id: str, session: str = "s", **how: Any) -> DeadBatch:
    """A batch that is dead from the start."""
    backend.store.work.enqueue(session, id, id=id, **how)
    assert fail_once(backend, session, f"{id} is cursed", bury=True) == []
    buried = {dead.id: dead for dead in backend.store.work.dead(session=session).items}
    return buried[id]


class TestFailing(OnASession):
    def test_failed_work_comes_back_after_a_pause(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        work.enqueue(session, 1, id="w1", backoff_s=10)
        lease = take(backend, ttl_s=600)
        claim = claimed(backend, lease)
        (failed,) = work.fail(claim, "the tool was down")
        assert (failed.attempts, failed.last_error) == (1, "the tool was down")
        assert failed.available_us == backend.clock.now_us() + 10 * S
        assert failed.claim is None
        assert work.list(session) == [failed]
        assert work.claim(lease) is None
        with pytest.raises(ClaimLost):
            work.fail(claim, "again")
        backend.clock.advance(10)
        again = claimed(backend, lease)
        assert [(b.id, b.attempts, b.last_error) for b in again.batches] == [
            ("w1", 2, "the tool was down")
        ]
        complete(backend, lease, again)
        assert work.list(session) == []

    def test_the_pause_doubles_up_to_an_hour(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1, backoff_s=600, max_attempts=None)
        pauses = []
        for _ in range(5):
            (failed,) = fail_once(backend)
            pauses.append((failed.available_us - backend.clock.now_us()) // S)
            backend.clock.advance(pauses[-1])
        assert pauses == [600, 1200, 2400, 3600, 3600]

    def test_without_a_pause_of_its_own_it_begins_at_a_second(
        self, backend: Bed, session: str
    ) -> None:
        backend.store.work.enqueue(session, 1, backoff_s=0)
        (failed,) = fail_once(backend)
        assert failed.available_us == backend.clock.now_us() + S

    def test_the_caller_may_choose_the_pause(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1, backoff_s=1)
        (failed,) = fail_once(backend, delay_s=77)
        assert failed.available_us == backend.clock.now_us() + 77 * S

    def test_the_last_attempt_is_the_end(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        work.enqueue(session, 1, id="w1", max_attempts=3)
        for left in (1, 1, 0):
            assert len(fail_once(backend, error="down")) == left
            backend.clock.advance(60)
        assert work.list(session) == []
        (dead,) = work.dead()
        assert (dead.id, dead.session, dead.reason) == ("w1", session, "down")
        assert (dead.batch.attempts, dead.batch.claim) == (3, None)
        assert dead.dead_us == backend.clock.now_us() - 60 * S

    def test_work_may_have_endless_patience(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1, max_attempts=None)
        for _ in range(12):
            assert len(fail_once(backend)) == 1
            backend.clock.advance(3600)
        assert backend.store.work.dead().items == []

    def test_all_batches_of_a_claim_fail_together(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        for n, patience in enumerate((1, 5), 1):
            work.enqueue(
                session, n, id=f"w{n}", slot="join", merge="group:g", max_attempts=patience
            )
        again = work.fail(claimed(backend, take(backend), max=2), "both")
        assert names(again) == ["w2"] == names(work.list(session))
        assert [dead.id for dead in work.dead()] == ["w1"]

    def test_an_error_is_kept_in_bounds(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        for error in ("x" * 5000, "nul\0 and \ud800", ValueError("boom"), KeyError()):
            work.enqueue(session, 1, id=str(len(str(error))), max_attempts=None)
            lease = take(backend)
            (failed,) = work.fail(claimed(backend, lease), error)
            backend.store.leases.release(lease)
            assert failed.last_error is not None
            assert 0 < len(failed.last_error) <= 1000
            work.cancel(failed)
        work.enqueue(session, 1)
        claim = claimed(backend, take(backend))
        with pytest.raises(InvalidValue):
            work.fail(claim, 7)  # type: ignore[arg-type]

    def test_an_exception_is_named_by_its_type(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1)
        claim = claimed(backend, take(backend))
        (failed,) = backend.store.work.fail(claim, ValueError("boom"))
        assert failed.last_error == "ValueError: boom"


class TestPatience(OnASession):
    """Workers that die without a word count as well."""

    def test_work_that_kills_its_workers_is_buried(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        work.enqueue(session, 1, id="deadly", max_attempts=2)
        work.enqueue(session, 2, id="fine")
        for _ in range(2):
            assert names(claimed(backend, take(backend, owner="a", ttl_s=10))) == ["deadly"]
            backend.clock.advance(10)
        lease = take(backend, owner="b")
        assert names(claimed(backend, lease)) == ["fine"]
        (dead,) = work.dead()
        assert (dead.id, dead.batch.attempts, dead.batch.claim) == ("deadly", 2, None)
        assert dead.reason == "given up after 2 attempts: no worker came back"

    def test_burying_lasts_even_when_nothing_is_left(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        work.enqueue(session, 1, id="deadly", max_attempts=1)
        claimed(backend, take(backend, ttl_s=10))
        backend.clock.advance(10)
        assert work.claim(take(backend, owner="b")) is None
        assert work.list(session) == []
        assert [dead.id for dead in backend.reopen().work.dead()] == ["deadly"]

    def test_the_last_words_are_the_reason(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        work.enqueue(session, 1, max_attempts=2)
        fail_once(backend, error="it hurts")
        backend.clock.advance(60)
        claimed(backend, take(backend, ttl_s=10))
        backend.clock.advance(10)
        assert work.claim(take(backend, owner="b")) is None
        assert [dead.reason for dead in work.dead()] == ["it hurts"]

    def test_work_that_was_handed_back_is_no_attempt(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        work.enqueue(session, 1, max_attempts=1)
        lease = take(backend)
        for _ in range(3):
            assert work.abandon(claimed(backend, lease))
        assert claimed(backend, lease).batches[0].attempts == 1


class TestDeadLetters(OnASession):
    def test_buried_at_once_on_request(self, backend: Bed, session: str) -> None:
        dead = bury(backend, "w1", priority=3, key="k", queue="default")
        assert (dead.reason, dead.dead_us) == ("w1 is cursed", backend.clock.now_us())
        assert (dead.batch.payloads, dead.batch.priority) == (["w1"], 3)
        assert dead.batch.source_key == "k"
        assert backend.store.work.list(session) == []
        assert backend.reopen().work.dead().items == [dead]

    def test_they_are_listed_oldest_first_and_by_pages(self, backend: Bed, session: str) -> None:
        backend.store.sessions.create(id="other")
        for id, where in (("b", "s"), ("a", "s"), ("c", "other")):
            bury(backend, id, where)
        backend.clock.advance(1)
        bury(backend, "0", "other")
        dead = backend.store.work.dead
        assert [d.id for d in dead()] == ["a", "b", "c", "0"]
        assert [d.id for d in dead(session="other")] == ["c", "0"]
        assert dead(session="nowhere").items == []
        seen, cursor = [], None
        for _ in range(2):
            page = dead(limit=2, cursor=cursor, total=True)
            assert page.total == 4
            seen += [d.id for d in page]
            cursor = page.cursor
        assert (seen, cursor) == (["a", "b", "c", "0"], None)
        assert [d.id for d in dead(limit=2, offset=1)] == ["b", "c"]
        foreign = dead(limit=1).cursor
        with pytest.raises(InvalidValue):
            dead(session="s", cursor=foreign)
        with pytest.raises(InvalidValue):
            dead(cursor=foreign, offset=1)

    def test_a_replayed_batch_is_as_new_at_the_end(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        dead = bury(backend, "w1", delay_s=0, key="k", max_attempts=1)
        second = work.enqueue(session, 2, id="w2")
        backend.clock.advance(5)
        batch = work.replay(dead)
        assert (batch.id, batch.source_key, batch.attempts) == ("w1", "k", 0)
        assert batch.enqueue_seq > second.enqueue_seq
        assert batch.available_us <= backend.clock.now_us()
        assert work.list(session) == [second, batch]
        assert work.dead().items == []
        with pytest.raises(BatchNotFound):
            work.replay("w1")
        lease = take(backend)
        assert names(claimed(backend, lease)) == ["w2"]
        assert names(claimed(backend, lease)) == ["w1"]

    def test_a_key_that_is_in_use_again_stays_with_the_newer(
        self, backend: Bed, session: str
    ) -> None:
        work = backend.store.work
        bury(backend, "w1", key="k")
        newer = work.enqueue(session, 2, key="k")
        assert newer.id != "w1"
        assert work.replay("w1").source_key is None
        assert work.enqueue(session, 3, key="k") == newer

    def test_an_id_that_is_queued_again_is_not_replaced(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        bury(backend, "w1")
        newer = work.enqueue(session, "other", id="w1")
        with backend.unchanged(session), pytest.raises(AlreadyExists):
            work.replay("w1")
        assert [dead.id for dead in work.dead()] == ["w1"]
        assert work.list(session) == [newer]

    def test_a_dead_batch_can_be_taken_again(self, backend: Bed, session: str) -> None:
        bury(backend, "w1")
        assert backend.store.work.take() is None
        backend.store.work.replay("w1")
        taken = backend.store.work.take()
        assert taken is not None
        assert names(taken.claim) == ["w1"]

    def test_a_dropped_one_is_forgotten(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        dead = bury(backend, "w1")
        assert work.drop(dead) is True
        assert work.drop("w1") is False
        assert work.dead().items == []
        with pytest.raises(BatchNotFound):
            work.replay(dead)

    def test_a_deleted_session_takes_nothing_back(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        bury(backend, "w1")
        backend.store.sessions.delete(session)
        with pytest.raises(SessionDeleted):
            work.replay("w1")
        backend.store.sessions.restore(session)
        assert work.replay("w1").id == "w1"

    def test_they_go_with_their_session(self, backend: Bed, session: str) -> None:
        bury(backend, "w1")
        backend.store.sessions.purge(session)
        assert backend.store.work.dead().items == []
        assert backend.store.work.drop("w1") is False
        with pytest.raises(BatchNotFound):
            backend.store.work.replay("w1")

    def test_no_tenant_sees_those_of_another(self, backend: Bed, session: str) -> None:
        bury(backend, "w1")
        other = backend.open("other")
        assert other.work.dead(total=True).total == 0
        assert other.work.drop("w1") is False
        with pytest.raises(BatchNotFound):
            other.work.replay("w1")
        assert [dead.id for dead in backend.store.work.dead()] == ["w1"]
