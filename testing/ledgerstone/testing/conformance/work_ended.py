"""What became of work: recorded by state, counted, and pruned."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import user
from ledgerstone.errors import BatchNotFound, InvalidValue
from ledgerstone.records.work import EndedBatch, EndState, WorkCounts
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import OnASession, claimed, complete, names, take
from ledgerstone.testing.conformance.work_claims import fill
from ledgerstone.testing.conformance.work_retries import bury

STATES: tuple[EndState, ...] = ("done", "cancelled", "dead", "superseded")


def done(backend: Bed, id: str, session: str = "s", **how: Any) -> None:
    """Queue a batch and complete it."""
    backend.store.work.enqueue(session, id, id=id, **how)
    lease = take(backend, session)
    complete(backend, lease, claimed(backend, lease), release=True)


def cancelled(backend: Bed, id: str, session: str = "s") -> None:
    backend.store.work.enqueue(session, id, id=id)
    assert backend.store.work.cancel(session, id) is not None


def ended(backend: Bed, state: EndState, **where: Any) -> list[str]:
    """The ids of what ended in a state."""
    return [one.id for one in backend.store.work.ended(state, **where)]


class TestEndedWork(OnASession):
    @pytest.mark.promise(206)
    def test_what_is_done_is_recorded_with_its_turn(self, backend: Bed, session: str) -> None:
        made = backend.store.work.enqueue(session, {"n": 1}, id="w1", key="k")
        lease = take(backend)
        claim = claimed(backend, lease)
        backend.clock.advance(3)
        with backend.store.turns.begin(lease, id="t9") as turn:
            turn.complete(claim)
        backend.reopen()
        (one,) = backend.store.work.ended("done")
        assert isinstance(one, EndedBatch)
        assert (one.id, one.session, one.state) == ("w1", session, "done")
        assert (one.reason, one.ended_us) == ("by turn t9", backend.clock.now_us())
        batch = one.batch
        assert (batch.payloads, batch.source_key, batch.attempts) == ([{"n": 1}], "k", 1)
        assert (batch.enqueue_seq, batch.claim) == (made.enqueue_seq, None)
        assert backend.store.work.list(session) == []

    @pytest.mark.promise(206)
    def test_what_is_cancelled_is_recorded_with_its_reason(
        self, backend: Bed, session: str
    ) -> None:
        fill(backend, 2)
        backend.store.work.cancel(session, "w1")
        backend.store.work.cancel(session, "w2", reason="not needed")
        first, second = backend.store.work.ended("cancelled")
        assert (first.id, first.reason) == ("w1", "cancelled")
        assert (second.id, second.reason) == ("w2", "not needed")
        assert second.ended_us == backend.clock.now_us()

    @pytest.mark.promise(206)
    def test_dead_letters_are_one_of_the_states(self, backend: Bed, session: str) -> None:
        dead = bury(backend, "w1")
        (one,) = backend.store.work.ended("dead")
        assert (one.batch, one.reason, one.ended_us) == (dead.batch, dead.reason, dead.dead_us)
        done(backend, "w2")
        assert backend.store.work.dead().items == [dead]

    @pytest.mark.promise(206)
    def test_only_dead_ones_are_replayed_or_dropped(self, backend: Bed, session: str) -> None:
        done(backend, "w1")
        cancelled(backend, "w2")
        for id in ("w1", "w2"):
            with backend.unchanged(session), pytest.raises(BatchNotFound):
                backend.store.work.replay(id)
            assert not backend.store.work.drop(id)
        bury(backend, "w3")
        backend.store.work.replay("w3")
        assert ended(backend, "dead") == []
        assert names(backend.store.work.list(session)) == ["w3"]

    @pytest.mark.promise(206)
    def test_a_second_life_has_a_record_of_its_own(self, backend: Bed, session: str) -> None:
        bury(backend, "w1")
        done(backend, "w1")
        done(backend, "w1")
        assert ended(backend, "dead") == ["w1"]
        assert ended(backend, "done") == ["w1", "w1"]
        assert backend.store.work.counts(session) == WorkCounts(done=2, dead=1)

    @pytest.mark.promise(206)
    def test_listed_by_state_and_session_oldest_first(self, backend: Bed, session: str) -> None:
        backend.store.messages.append("other", user("hi"), create=True)
        for n, where in enumerate(("s", "other", "s", "s"), start=1):
            done(backend, f"w{n}", where)
            backend.clock.advance(1)
        assert ended(backend, "done") == ["w1", "w2", "w3", "w4"]
        assert ended(backend, "done", session=session) == ["w1", "w3", "w4"]
        assert ended(backend, "cancelled", session=session) == []
        assert ended(backend, "done", session="unknown") == []
        assert ended(backend, "done", offset=1, limit=2) == ["w2", "w3"]
        page = backend.store.work.ended("done", limit=3, total=True)
        assert (page.total, page.limit, page.has_more) == (4, 3, True)
        rest = backend.store.work.ended("done", limit=3, cursor=page.cursor)
        assert ([one.id for one in rest], rest.has_more) == (["w4"], False)
        with pytest.raises(InvalidValue):
            backend.store.work.ended("cancelled", cursor=page.cursor)

    @pytest.mark.promise(206)
    def test_pages_of_one_moment_miss_nothing(self, backend: Bed, session: str) -> None:
        for _ in range(5):
            cancelled(backend, "same")
        found, cursor = [], None
        for _ in range(5):
            page = backend.store.work.ended("cancelled", limit=1, cursor=cursor)
            found += [one.batch.enqueue_seq for one in page]
            cursor = page.cursor
        assert (len(set(found)), found, cursor) == (5, sorted(found), None)

    def test_another_state_is_refused(self, backend: Bed, session: str) -> None:
        wrong: Any = "lost"
        with pytest.raises(InvalidValue, match="state"):
            backend.store.work.ended(wrong)

    @pytest.mark.promise(206)
    def test_another_tenants_are_not_seen(self, backend: Bed, session: str) -> None:
        done(backend, "w1")
        other = backend.store.for_tenant("other")
        assert other.work.ended("done").items == []
        assert other.work.counts() == other.work.counts(session) == WorkCounts()
        assert other.work.prune(older_than_s=0) == 0
        assert ended(backend, "done") == ["w1"]

    @pytest.mark.promise(24, 206)
    def test_a_purge_takes_the_records_along(self, backend: Bed, session: str) -> None:
        done(backend, "w1")
        bury(backend, "w2")
        backend.store.sessions.purge(session)
        assert [ended(backend, state) for state in STATES] == [[]] * 4
        assert backend.store.work.counts() == WorkCounts()
        assert backend.store.admin.verify().defects == []


class TestCounts(OnASession):
    @pytest.mark.promise(206)
    def test_every_state_is_counted(self, backend: Bed, session: str) -> None:
        backend.store.messages.append("other", user("hi"), create=True)
        assert backend.store.work.counts(session) == WorkCounts()
        for n in range(3):
            done(backend, f"d{n}")
        done(backend, "o1", "other")
        cancelled(backend, "c1")
        bury(backend, "b1")
        bury(backend, "b1", "other")
        backend.reopen()
        counts = backend.store.work.counts
        assert counts(session) == WorkCounts(done=3, cancelled=1, dead=1)
        assert counts("other") == WorkCounts(done=1, dead=1)
        assert counts() == WorkCounts(done=4, cancelled=1, dead=2)
        assert counts("unknown") == WorkCounts()
        assert backend.store.admin.verify().defects == []

    @pytest.mark.promise(206)
    def test_a_record_that_goes_is_not_counted_any_more(self, backend: Bed, session: str) -> None:
        bury(backend, "w1")
        bury(backend, "w2")
        backend.store.work.drop("w2")
        backend.store.work.replay("w1")
        assert backend.store.work.counts(session) == WorkCounts()
        backend.store.work.cancel(session, "w1")
        assert backend.store.work.counts(session) == WorkCounts(cancelled=1)
        assert backend.store.admin.verify().defects == []

    @pytest.mark.promise(206)
    def test_who_dies_again_is_counted_once(self, backend: Bed, session: str) -> None:
        bury(backend, "w1")
        bury(backend, "w1")
        assert ended(backend, "dead") == ["w1"]
        assert backend.store.work.counts(session) == WorkCounts(dead=1)

    @pytest.mark.promise(206)
    def test_a_commit_that_fails_ends_nothing(self, backend: Bed, session: str) -> None:
        fill(backend, 1)
        lease = take(backend)
        claim = claimed(backend, lease)
        turn = backend.store.turns.begin(lease, expected_revision=99)
        turn.complete(claim)
        with backend.unchanged(session), pytest.raises(Exception, match="99"):
            turn.commit()
        assert backend.store.work.counts(session) == WorkCounts()
        assert ended(backend, "done") == []


class TestPruning(OnASession):
    @pytest.mark.promise(206)
    def test_only_what_ended_long_ago_goes(self, backend: Bed, session: str) -> None:
        done(backend, "old")
        cancelled(backend, "gone")
        bury(backend, "dead")
        backend.clock.advance(100)
        done(backend, "new")
        assert backend.store.work.prune(older_than_s=50) == 3
        assert [ended(backend, state) for state in STATES] == [["new"], [], [], []]
        assert backend.store.work.counts(session) == WorkCounts(done=1)
        assert backend.store.work.prune(older_than_s=50) == 0
        backend.clock.advance(1)
        assert backend.store.work.prune(older_than_s=0) == 1
        assert backend.store.work.counts(session) == WorkCounts()
        assert backend.store.admin.verify().defects == []

    @pytest.mark.promise(206)
    def test_what_is_queued_stays_however_old(self, backend: Bed, session: str) -> None:
        fill(backend, 3)
        lease = take(backend)
        claim = claimed(backend, lease)
        backend.clock.advance(30)
        before = backend.store.work.list(session)
        assert backend.store.work.prune(older_than_s=0) == 0
        assert backend.store.work.list(session) == before
        complete(backend, lease, claim)

    @pytest.mark.promise(206)
    def test_many_go_in_pieces(self, backend: Bed, session: str, monkeypatch: Any) -> None:
        monkeypatch.setattr("ledgerstone.api_sync.work.PRUNE_ROWS", 2)
        for n in range(5):
            cancelled(backend, f"w{n}")
        bury(backend, "b1")
        backend.clock.advance(1)
        assert backend.store.work.prune(older_than_s=0) == 6
        assert backend.store.work.counts() == WorkCounts()

    @pytest.mark.parametrize("age", [-1, "1d", None])
    def test_an_age_is_a_number_of_seconds(self, backend: Bed, session: str, age: Any) -> None:
        with pytest.raises(InvalidValue, match="older_than_s"):
            backend.store.work.prune(older_than_s=age)
