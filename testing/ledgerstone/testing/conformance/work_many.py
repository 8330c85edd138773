"""Work of many sessions in one call: each by itself, as if it had been one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ledgerstone.errors import InvalidValue, SessionDeleted, SessionNotFound
from ledgerstone.records.work import Batch, Taken
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import complete
from ledgerstone.testing.conformance.work_take import fill

NAMES = [f"s{n:02d}" for n in range(20)]


def make(backend: Bed) -> None:
    for name in NAMES:
        backend.store.sessions.create(id=name)


def payloads(backend: Bed, session: str) -> list[Any]:
    return [batch.payloads for batch in backend.store.work.list(session)]


class TestManyEnqueued:
    def test_each_session_gets_its_own(self, backend: Bed) -> None:
        make(backend)
        found = backend.store.work.enqueue_many([(name, {"for": name}) for name in NAMES])
        assert [(one.session, one.enqueue_seq) for one in found if isinstance(one, Batch)] == [
            (name, 1) for name in NAMES
        ]
        for name, one in zip(NAMES, found, strict=True):
            assert backend.store.work.list(name) == [one]
            assert payloads(backend, name) == [[{"for": name}]]
        assert not backend.store.admin.verify().defects

    def test_several_of_one_session_keep_their_order(self, backend: Bed) -> None:
        make(backend)
        found = backend.store.work.enqueue_many([(NAMES[n % 2], n) for n in range(10)])
        assert len({one.id for one in found if isinstance(one, Batch)}) == 10
        assert payloads(backend, NAMES[0]) == [[n] for n in range(0, 10, 2)]
        assert payloads(backend, NAMES[1]) == [[n] for n in range(1, 10, 2)]

    def test_one_that_is_refused_does_not_hold_the_others(self, backend: Bed) -> None:
        make(backend)
        backend.store.sessions.delete(NAMES[1])
        found = backend.store.work.enqueue_many(
            [(NAMES[0], 0), (NAMES[1], 1), ("nobody", 2), (NAMES[2], 3)]
        )
        assert [type(one) for one in found] == [Batch, SessionDeleted, SessionNotFound, Batch]
        assert payloads(backend, NAMES[2]) == [[3]]

    def test_keywords_are_those_of_all(self, backend: Bed) -> None:
        make(backend)
        pairs = [(name, 1) for name in NAMES[:3]]
        first = backend.store.work.enqueue_many(pairs, key="k", queue="q", priority=7)
        again = backend.store.work.enqueue_many(pairs, key="k", queue="q", priority=7)
        assert again == first
        assert {(b.queue, b.priority) for b in first if isinstance(b, Batch)} == {("q", 7)}

    def test_nothing_is_nothing(self, backend: Bed) -> None:
        assert backend.store.work.enqueue_many([]) == []

    @pytest.mark.parametrize("bad", [None, "s", 5, {"s": 1}, [1], [("s",)], ["sx"], [(5, 1)]])
    def test_what_is_no_pair_queues_nothing(self, backend: Bed, bad: Any) -> None:
        make(backend)
        work = [(NAMES[0], 1), *bad] if isinstance(bad, list) else bad
        with pytest.raises(InvalidValue):
            backend.store.work.enqueue_many(work)
        with pytest.raises(InvalidValue):
            backend.store.work.enqueue_many([(NAMES[0], 1)], colour="red")  # type: ignore[call-arg]
        assert backend.store.work.list(NAMES[0]) == []


class TestManyTaken:
    @pytest.mark.promise(139)
    def test_as_many_as_there_are_and_each_once(self, backend: Bed) -> None:
        fill(backend, *NAMES)
        backend.clock.advance(1)
        first = backend.store.work.take_many(12, owner="w", ttl_s=30)
        rest = backend.store.work.take_many(12)
        assert sorted(one.lease.session for one in (*first, *rest)) == NAMES
        assert {one.lease.session for one in first} == set(NAMES[:12])
        assert {(one.lease.owner, one.claim.fence) for one in first} == {("w", 1)}
        assert backend.store.work.take_many(3) == []
        for lease, claim in (*first, *rest):
            complete(backend, lease, claim, release=True)
        assert backend.store.work.take_many(3) == []
        assert not backend.store.admin.verify().defects

    def test_what_is_not_due_or_of_another_queue_stays(self, backend: Bed) -> None:
        fill(backend, "a", "b", queue="gpu")
        fill(backend, "c", delay_s=60)
        backend.clock.advance(1)
        assert backend.store.work.take_many(5) == []
        found = backend.store.work.take_many(5, queue="gpu")
        assert {one.lease.session for one in found} == {"a", "b"}

    def test_max_is_of_each_session(self, backend: Bed) -> None:
        fill(backend, "a", "b", items=3, slot="join", merge="payload")
        backend.clock.advance(1)
        found = backend.store.work.take_many(2, max=2)
        assert [len(one.claim.batches) for one in found] == [2, 2]

    @pytest.mark.parametrize("bad", [0, -1, None, "2", 1.5, True, 1001])
    def test_how_many_is_a_number(self, backend: Bed, bad: Any) -> None:
        with pytest.raises(InvalidValue):
            backend.store.work.take_many(bad)

    @pytest.mark.promise(139)
    def test_threads_never_share_a_session(self, backend: Bed) -> None:
        fill(backend, *NAMES)
        backend.clock.advance(1)

        def take(_: int) -> list[Taken]:
            return backend.store.work.take_many(7)

        with ThreadPoolExecutor(4) as threads:
            found = [one.lease.session for some in threads.map(take, range(4)) for one in some]
        found += [one.lease.session for one in backend.store.work.take_many(20)]
        assert sorted(found) == NAMES
