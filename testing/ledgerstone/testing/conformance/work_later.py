"""Work that is handed back for later: nobody gets it before, and the attempt does not count."""

from __future__ import annotations

import pytest

from ledgerstone.errors import InvalidValue
from ledgerstone.records.work import Batch, Taken
from ledgerstone.testing.bed import Bed


def take(backend: Bed) -> Taken | None:
    taken: Taken | None = backend.store.work.take(owner="ann", ttl_s=60)
    return taken


def hand_back(backend: Bed, taken: Taken, delay_s: float) -> Batch:
    assert backend.store.work.abandon(taken.claim, delay_s=delay_s)
    backend.store.leases.release(taken.lease)
    return backend.store.work.list("s")[0]


class TestLater:
    @pytest.fixture(autouse=True)
    def work(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        backend.store.work.enqueue("s", 1, max_attempts=1)

    def test_nobody_gets_it_before_and_it_is_not_counted(self, backend: Bed) -> None:
        for _ in range(3):
            taken = take(backend)
            assert taken is not None
            assert taken.claim.batches[0].attempts == 1
            batch = hand_back(backend, taken, 5)
            assert (batch.attempts, batch.claim, batch.last_error) == (0, None, None)
            assert batch.available_us == backend.clock.now_us() + 5_000_000
            assert take(backend) is None
            backend.clock.advance(4.9)
            assert take(backend) is None
            backend.clock.advance(0.1)

    def test_others_of_the_session_go_first(self, backend: Bed) -> None:
        taken = take(backend)
        assert taken is not None
        backend.store.work.enqueue("s", 2)
        hand_back(backend, taken, 5)
        second = take(backend)
        assert second is not None
        assert second.claim.payloads == [2]

    def test_without_a_delay_it_is_there_at_once(self, backend: Bed) -> None:
        taken = take(backend)
        assert taken is not None
        assert hand_back(backend, taken, 0).available_us <= backend.clock.now_us()
        assert take(backend) is not None

    def test_a_wrong_delay_is_refused(self, backend: Bed) -> None:
        taken = take(backend)
        assert taken is not None
        for bad in (-1, float("nan"), 1e12):
            with pytest.raises(InvalidValue):
                backend.store.work.abandon(taken.claim, delay_s=bad)
