"""Enqueueing what is queued already, and the order in which a queue is listed."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone.errors import AlreadyExists, InvalidValue
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import OnASession, claimed, complete, names, take
from ledgerstone.testing.conformance.work_claims import JOIN, fill


class TestDuplicates(OnASession):
    @pytest.mark.promise(208)
    def test_the_first_batch_is_answered(self, backend: Bed, session: str) -> None:
        first = backend.store.work.enqueue(session, 1, id="w1", key="k")
        with backend.unchanged(session):
            named: list[dict[str, Any]] = [{"key": "k"}, {"id": "w1"}]
            for how in named:
                again = backend.store.work.enqueue(session, 2, on_duplicate="answer", **how)
                assert again == first

    @pytest.mark.promise(208)
    @pytest.mark.parametrize("how", [{"key": "k"}, {"id": "w1"}, {"id": "w1", "key": "l"}], ids=str)
    def test_or_refused(self, backend: Bed, session: str, how: dict[str, Any]) -> None:
        backend.store.work.enqueue(session, 1, id="w1", key="k", on_duplicate="refuse")
        with backend.unchanged(session), pytest.raises(AlreadyExists) as refused:
            backend.store.work.enqueue(session, 2, on_duplicate="refuse", **how)
        assert refused.value.id == "w1"

    @pytest.mark.promise(208)
    def test_refused_while_it_is_claimed_and_not_when_it_is_done(
        self, backend: Bed, session: str
    ) -> None:
        backend.store.work.enqueue(session, 1, id="w1", key="k")
        lease = take(backend)
        claim = claimed(backend, lease)
        with pytest.raises(AlreadyExists):
            backend.store.work.enqueue(session, 2, key="k", on_duplicate="refuse")
        complete(backend, lease, claim)
        made = backend.store.work.enqueue(session, 2, key="k", on_duplicate="refuse")
        assert backend.store.work.list(session) == [made]

    @pytest.mark.promise(208)
    def test_the_key_of_another_session_is_no_duplicate(self, backend: Bed, session: str) -> None:
        backend.store.sessions.create(id="other")
        backend.store.work.enqueue(session, 1, key="k", on_duplicate="refuse")
        backend.store.work.enqueue("other", 1, key="k", on_duplicate="refuse")

    def test_another_word_is_refused(self, backend: Bed, session: str) -> None:
        wrong: Any = "replace"
        with pytest.raises(InvalidValue, match="on_duplicate"):
            backend.store.work.enqueue(session, 1, on_duplicate=wrong)


class TestOrderOfLists(OnASession):
    @pytest.mark.promise(209)
    def test_by_arrival_or_by_priority(self, backend: Bed, session: str) -> None:
        for n, priority in enumerate((200, 5, 128, 5), start=1):
            backend.store.work.enqueue(session, n, id=f"w{n}", priority=priority)
        list_ = backend.store.work.list
        assert names(list_(session)) == ["w1", "w2", "w3", "w4"]
        assert names(list_(session, order="arrival")) == ["w1", "w2", "w3", "w4"]
        assert names(list_(session, order="priority")) == ["w2", "w4", "w3", "w1"]

    @pytest.mark.promise(209)
    def test_by_priority_is_how_they_are_claimed(self, backend: Bed, session: str) -> None:
        for n, priority in enumerate((9, 3, 9, 0, 255), start=1):
            backend.store.work.enqueue(session, n, id=f"w{n}", priority=priority)
        listed = backend.store.work.list(session, pending=True, order="priority")
        lease = take(backend)
        assert [names(claimed(backend, lease)) for _ in listed] == [[one.id] for one in listed]
        assert backend.store.work.list(session, pending=True, order="priority") == []

    def test_another_order_is_refused(self, backend: Bed, session: str) -> None:
        fill(backend, 1, **JOIN)
        wrong: Any = "age"
        with pytest.raises(InvalidValue, match="order"):
            backend.store.work.list(session, order=wrong)
