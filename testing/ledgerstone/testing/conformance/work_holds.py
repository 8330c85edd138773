"""`work.hold`: work for the length of a block, whose end decides what becomes of it."""

from __future__ import annotations

import pytest

from ledgerstone import user
from ledgerstone.errors import Fenced, Timeout
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work_take import fill, taken

S = 1_000_000


class TestHoldingWork:
    def test_work_that_was_completed_is_gone(self, backend: Bed) -> None:
        fill(backend, "a")
        with backend.store.work.hold(owner="w") as (lease, claim):
            assert (lease.owner, claim.payloads) == ("w", [0])
            turn = backend.store.turns.begin(lease)
            turn.assistant("done")
            turn.complete(claim)
            turn.commit(release=True)
        assert backend.store.work.list("a") == []
        assert backend.store.leases.get("a") is None
        assert backend.texts("a") == ["done"]

    def test_a_clean_end_hands_the_rest_back(self, backend: Bed) -> None:
        fill(backend, "a")
        before = backend.store.work.list("a")
        with backend.store.work.hold():
            assert backend.store.work.list("a") != before
        assert backend.store.work.list("a") == before
        assert backend.store.leases.get("a") is None

    def test_an_error_is_a_failed_attempt(self, backend: Bed) -> None:
        fill(backend, "a", backoff_s=10)
        with pytest.raises(ZeroDivisionError), backend.store.work.hold():
            raise ZeroDivisionError("by zero")
        (batch,) = backend.store.work.list("a")
        assert (batch.attempts, batch.last_error) == (1, "ZeroDivisionError: by zero")
        assert batch.available_us == backend.clock.now_us() + 10 * S
        assert backend.store.leases.get("a") is None

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_who_is_told_to_stop_has_not_failed(
        self, backend: Bed, error: type[BaseException]
    ) -> None:
        fill(backend, "a")
        with pytest.raises(error), backend.store.work.hold():
            raise error
        (batch,) = backend.store.work.list("a", pending=True)
        assert (batch.attempts, batch.last_error) == (0, None)
        assert backend.store.leases.get("a") is None

    def test_who_was_fenced_off_writes_nothing(self, backend: Bed) -> None:
        fill(backend, "a")
        store, successors = backend.store, []

        def robbed() -> None:
            with store.work.hold() as (lease, _):
                store.leases.break_("a", by="op", reason="test")
                successors.append(taken(store, owner="bob"))
                store.messages.append("a", user("late"), lease=lease)

        with pytest.raises(Fenced):
            robbed()
        (successor,) = successors
        assert backend.store.leases.get("a") == successor.lease
        (batch,) = backend.store.work.list("a")
        assert (batch.claim, batch.attempts) == (successor.claim.id, 2)
        assert batch.last_error is None

    def test_what_the_block_settled_stays_settled(self, backend: Bed) -> None:
        fill(backend, "a")
        work = backend.store.work

        def fails_twice() -> None:
            with work.hold() as (_, claim):
                work.fail(claim, "during")
                raise ValueError("after")

        with pytest.raises(ValueError, match="after"):
            fails_twice()
        (batch,) = backend.store.work.list("a")
        assert (batch.attempts, batch.last_error) == (1, "during")

    def test_waiting_has_an_end(self, backend: Bed) -> None:
        fill(backend, "a", delay_s=60)
        for wait_s in (0, 0.05):
            with (
                pytest.raises(Timeout) as caught,
                backend.store.work.hold(queue="mail", wait_s=wait_s),
            ):
                pass
            assert "mail" in str(caught.value)
