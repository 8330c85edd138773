"""Which work comes next, and what comes together: section 3.4 of the contract."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone.records.work import Delivery
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import OnASession, claimed, names, take
from ledgerstone.testing.conformance.work_claims import JOIN, fill

SAFE: Delivery = "earliest_safe_boundary"


class TestWhichWork(OnASession):
    @pytest.mark.promise(136)
    def test_an_exclusive_batch_comes_alone(self, backend: Bed, session: str) -> None:
        fill(backend, 3, slot="exclusive", merge="payload")
        assert names(claimed(backend, take(backend), max=5)) == ["w1"]

    @pytest.mark.promise(136)
    def test_batches_of_a_group_come_together(self, backend: Bed, session: str) -> None:
        fill(backend, 5, **JOIN)
        lease = take(backend)
        claim = claimed(backend, lease, max=3)
        assert (names(claim), claim.payloads) == (["w1", "w2", "w3"], [1, 2, 3])
        assert names(claimed(backend, lease, max=9)) == ["w4", "w5"]

    @pytest.mark.promise(136)
    def test_payloads_of_one_kind_merge_by_default_key(self, backend: Bed, session: str) -> None:
        fill(backend, 2, slot="join", merge="payload")
        assert names(claimed(backend, take(backend), max=5)) == ["w1", "w2"]

    @pytest.mark.promise(136)
    def test_what_never_merges_comes_alone(self, backend: Bed, session: str) -> None:
        fill(backend, 2, slot="join", merge="never")
        assert names(claimed(backend, take(backend), max=5)) == ["w1"]

    @pytest.mark.promise(136)
    @pytest.mark.parametrize(
        "other",
        [
            {"slot": "exclusive"},
            {"merge": "group:h"},
            {"merge": "payload"},
            {"merge": "never"},
            {"delivery": SAFE},
        ],
        ids=str,
    )
    def test_only_neighbours_join(self, backend: Bed, session: str, other: dict[str, Any]) -> None:
        enqueue = backend.store.work.enqueue
        enqueue(session, 1, id="w1", **JOIN)
        enqueue(session, 2, id="w2", **{**JOIN, **other})
        enqueue(session, 3, id="w3", **JOIN)
        lease = take(backend)
        for expected in ("w1", "w2", "w3"):
            assert names(claimed(backend, lease, max=5)) == [expected]

    @pytest.mark.promise(136, 137)
    def test_who_is_not_ready_does_not_stand_between(self, backend: Bed, session: str) -> None:
        enqueue = backend.store.work.enqueue
        enqueue(session, 1, id="w1", **JOIN)
        enqueue(session, 2, id="w2", delay_s=60)
        enqueue(session, 3, id="w3", queue="side")
        enqueue(session, 4, id="w4", **JOIN)
        lease = take(backend)
        assert names(claimed(backend, lease, queue="side")) == ["w3"]
        assert names(claimed(backend, lease, max=5)) == ["w1", "w4"]

    @pytest.mark.promise(136)
    def test_in_the_middle_of_a_turn_only_what_may_come_early(
        self, backend: Bed, session: str
    ) -> None:
        enqueue = backend.store.work.enqueue
        enqueue(session, 1, id="early", delivery=SAFE)
        enqueue(session, 2, id="late")
        enqueue(session, 3, id="early too", delivery=SAFE)
        lease = take(backend)
        boundary: Any = {"boundary": "active_turn_checkpoint"}
        assert names(claimed(backend, lease, **boundary)) == ["early"]
        # Nothing is skipped: what came first is not to be overtaken.
        with backend.unchanged(session):
            assert backend.store.work.claim(lease, **boundary) is None
        assert names(claimed(backend, lease, boundary="idle")) == ["late"]
        assert names(claimed(backend, lease, boundary="idle")) == ["early too"]

    @pytest.mark.promise(137)
    def test_work_of_the_future_waits_and_others_overtake_it(
        self, backend: Bed, session: str
    ) -> None:
        work = backend.store.work
        work.enqueue(session, 1, id="later", delay_s=30)
        work.enqueue(session, 2, id="now")
        lease = take(backend)
        assert names(claimed(backend, lease)) == ["now"]
        assert work.claim(lease) is None
        backend.clock.advance(29)
        assert work.claim(lease) is None
        backend.clock.advance(1)
        assert names(claimed(backend, lease)) == ["later"]

    def test_urgent_work_comes_first(self, backend: Bed, session: str) -> None:
        for n, priority in enumerate((128, 255, 0, 128, 7), 1):
            backend.store.work.enqueue(session, n, id=f"w{n}", priority=priority)
        lease = take(backend)
        order = [names(claimed(backend, lease))[0] for _ in range(5)]
        assert order == ["w3", "w5", "w1", "w4", "w2"]

    def test_a_group_follows_the_order_of_urgency(self, backend: Bed, session: str) -> None:
        enqueue = backend.store.work.enqueue
        enqueue(session, 1, id="w1", priority=9, **JOIN)
        enqueue(session, 2, id="w2", priority=5, **JOIN)
        enqueue(session, 3, id="w3", priority=9, **JOIN)
        lease = take(backend)
        claim = claimed(backend, lease, max=5, id="c1")
        assert names(claim) == ["w2", "w1", "w3"]
        assert backend.store.work.claim(lease, id="c1") == claim
        assert names(backend.store.work.renew(claim)) == names(claim)
        assert names(backend.store.work.fail(claim, "no")) == names(claim)

    def test_queues_are_apart_until_all_are_asked(self, backend: Bed, session: str) -> None:
        enqueue = backend.store.work.enqueue
        enqueue(session, 1, id="w1", queue="mail", **JOIN)
        enqueue(session, 2, id="w2", queue="web", **JOIN)
        enqueue(session, 3, id="w3", queue="mail", **JOIN)
        lease = take(backend)
        assert backend.store.work.claim(lease, queue="none") is None
        assert names(claimed(backend, lease, queue="mail", max=5)) == ["w1", "w3"]
        assert names(claimed(backend, lease)) == ["w2"]


class TestExactIds(OnASession):
    @pytest.mark.promise(141)
    def test_exactly_the_next_group(self, backend: Bed, session: str) -> None:
        fill(backend, 3, **JOIN)
        lease = take(backend)
        assert names(claimed(backend, lease, ids=["w1", "w2"])) == ["w1", "w2"]
        (left,) = backend.store.work.list(session, pending=True)
        assert names(claimed(backend, lease, ids=[left])) == ["w3"]

    @pytest.mark.promise(141)
    @pytest.mark.parametrize(
        "ids",
        [[], ["w1", "w3"], ["w1", "w9"], ["w1", "w2", "w3"], ["w1", "w1"]],
        ids=str,
    )
    def test_anything_else_claims_nothing(self, backend: Bed, session: str, ids: list[str]) -> None:
        fill(backend, 2, **JOIN)
        backend.store.work.enqueue(session, 3, id="w3")
        lease = take(backend)
        with backend.unchanged(session):
            assert backend.store.work.claim(lease, ids=ids, max=5) is None
        assert names(backend.store.work.list(session, pending=True)) == ["w1", "w2", "w3"]
