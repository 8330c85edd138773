"""Claiming batches by their ids, also before others."""

from __future__ import annotations

import pytest

from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import OnASession, claimed, complete, names, take
from ledgerstone.testing.conformance.work_claims import JOIN, fill


class TestNamedWork(OnASession):
    @pytest.mark.promise(205)
    @pytest.mark.parametrize(
        "ids", [["w2"], ["w3"], ["w1", "w3"], ["w3", "w2"], ["w1", "w2", "w3"]], ids=str
    )
    def test_named_batches_are_claimed_before_others(
        self, backend: Bed, session: str, ids: list[str]
    ) -> None:
        fill(backend, 3, **JOIN)
        claim = claimed(backend, take(backend), ids=ids)
        assert names(claim) == sorted(ids)
        left = [id for id in ("w1", "w2", "w3") if id not in ids]
        assert names(backend.store.work.list(session, pending=True)) == left

    @pytest.mark.promise(205)
    def test_they_need_not_merge(self, backend: Bed, session: str) -> None:
        fill(backend, 3, slot="join", merge="never")
        assert names(claimed(backend, take(backend), ids=["w1", "w3"])) == ["w1", "w3"]

    @pytest.mark.promise(205)
    def test_a_claim_out_of_order_is_completed_like_any_other(
        self, backend: Bed, session: str
    ) -> None:
        fill(backend, 3, **JOIN)
        lease = take(backend)
        complete(backend, lease, claimed(backend, lease, ids=["w2"]))
        assert names(backend.store.work.list(session)) == ["w1", "w3"]
        assert names(claimed(backend, lease, max=5)) == ["w1", "w3"]

    @pytest.mark.promise(205)
    def test_not_before_an_exclusive_one(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1, id="e1")
        fill(backend, 2, **JOIN)
        lease = take(backend)
        with backend.unchanged(session):
            assert backend.store.work.claim(lease, ids=["w2"]) is None
            assert backend.store.work.claim(lease, ids=["e1", "w1"]) is None
        assert names(claimed(backend, lease, ids=["e1"])) == ["e1"]
        assert names(claimed(backend, lease, ids=["w2"])) == ["w2"]

    @pytest.mark.promise(205)
    def test_an_exclusive_one_may_be_named_alone(self, backend: Bed, session: str) -> None:
        fill(backend, 2, **JOIN)
        backend.store.work.enqueue(session, 3, id="e1")
        lease = take(backend)
        with backend.unchanged(session):
            assert backend.store.work.claim(lease, ids=["w1", "e1"]) is None
        assert names(claimed(backend, lease, ids=["e1"])) == ["e1"]

    @pytest.mark.promise(205)
    def test_an_urgent_exclusive_one_stands_before_what_came_earlier(
        self, backend: Bed, session: str
    ) -> None:
        fill(backend, 1, **JOIN)
        backend.store.work.enqueue(session, 2, id="e1", priority=1)
        assert backend.store.work.claim(take(backend), ids=["w1"]) is None

    @pytest.mark.promise(205)
    @pytest.mark.parametrize("ids", [["w1", "later"], ["w1", "owned"], ["w1", "unknown"]], ids=str)
    def test_all_of_them_must_be_ready(self, backend: Bed, session: str, ids: list[str]) -> None:
        fill(backend, 1, **JOIN)
        backend.store.work.enqueue(session, 2, id="later", delay_s=60, **JOIN)
        backend.store.work.enqueue(session, 3, id="owned", **JOIN)
        lease = take(backend)
        claimed(backend, lease, ids=["owned"])
        with backend.unchanged(session):
            assert backend.store.work.claim(lease, ids=ids) is None

    @pytest.mark.promise(205)
    def test_the_boundary_holds_for_each_of_them(self, backend: Bed, session: str) -> None:
        fill(backend, 1, **JOIN)
        backend.store.work.enqueue(session, 2, id="safe", delivery="earliest_safe_boundary", **JOIN)
        lease = take(backend)
        for ids in (["w1"], ["w1", "safe"]):
            assert (
                backend.store.work.claim(lease, ids=ids, boundary="active_turn_checkpoint") is None
            )
        claim = claimed(backend, lease, ids=["safe"], boundary="active_turn_checkpoint")
        assert names(claim) == ["safe"]

    @pytest.mark.promise(205)
    def test_one_far_behind_is_found(self, backend: Bed, session: str) -> None:
        fill(backend, 150, **JOIN)
        assert names(claimed(backend, take(backend), ids=["w150", "w70"])) == ["w70", "w150"]
