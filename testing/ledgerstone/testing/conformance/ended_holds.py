"""After its block a held lease is over: nothing is written with it, and nothing takes it again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import user
from ledgerstone.errors import LeaseExpired, LeaseHeld
from ledgerstone.records.leases import Held
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.leases import WRITES, OnALeasedSession, take

MORE: dict[str, Callable[[Bed, Any], object]] = {
    **WRITES,
    "begin": lambda b, held: b.store.turns.begin(held),
    "renew": lambda b, held: b.store.leases.renew(held),
    "claim": lambda b, held: b.store.work.claim(held),
    "start": lambda b, held: b.store.executions.start(held, call_id="c", tool="t", arguments={}),
    "usage": lambda b, held: b.store.usage.record(held, "m", {"input": 1}),
}


def ended(backend: Bed, **how: Any) -> Held:
    """A lease whose block is over."""
    with backend.store.leases.hold("s", owner="ann", heartbeat=False, **how) as held:
        backend.store.messages.append("s", user("inside"), lease=held)
    return held


@pytest.mark.parametrize("name", MORE)
class TestAfterTheBlock(OnALeasedSession):
    def test_nothing_is_written_with_its_lease(self, backend: Bed, session: str, name: str) -> None:
        held = ended(backend)
        with (
            backend.unchanged(session),
            pytest.raises(LeaseExpired, match=r"block .* ended") as met,
        ):
            MORE[name](backend, held)
        assert (met.value.session, met.value.fence, met.value.ended) == (session, held.fence, True)
        assert "hold the session again" in str(met.value)
        assert backend.store.leases.get(session) is None
        assert take(backend, "bob").fence == held.fence + 1


class TestTheEndOfABlock(OnALeasedSession):
    def test_a_turn_begun_inside_is_committed_with_a_new_lease(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        with store.leases.hold(session, heartbeat=False) as held:
            turn = store.turns.begin(held)
            turn.user("late")
        for _ in range(2):
            with backend.unchanged(session), pytest.raises(LeaseExpired, match="ended"):
                turn.commit()
        with store.leases.hold(session, heartbeat=False) as again:
            turn.commit(lease=again)
        assert backend.texts(session)[-1] == "late"
        assert store.leases.get(session) is None

    def test_a_block_left_by_an_error_is_over_too(self, backend: Bed, session: str) -> None:
        store = backend.store
        with (
            pytest.raises(ZeroDivisionError),
            store.leases.hold(session, heartbeat=False) as held,
        ):
            raise ZeroDivisionError
        with backend.unchanged(session), pytest.raises(LeaseExpired, match="ended"):
            store.messages.append(session, user("late"), lease=held)
        assert store.leases.get(session) is None

    def test_a_lapsed_lease_is_not_taken_again(self, backend: Bed, session: str) -> None:
        held = ended(backend, ttl_s=5)
        backend.clock.advance(6)
        with backend.unchanged(session), pytest.raises(LeaseExpired, match="ended"):
            backend.store.messages.append(session, user("late"), lease=held)
        assert backend.store.leases.get(session) is None

    def test_a_lease_that_was_released_inside_is_over_too(self, backend: Bed, session: str) -> None:
        store = backend.store
        with store.leases.hold(session, heartbeat=False) as held:
            turn = store.turns.begin(held)
            turn.user("last")
            turn.commit(release=True)
        with backend.unchanged(session), pytest.raises(LeaseExpired, match="ended"):
            store.messages.append(session, user("late"), lease=held)
        assert store.leases.get(session) is None

    def test_releasing_it_once_more_does_nothing(self, backend: Bed, session: str) -> None:
        held = ended(backend)
        successor = take(backend, "bob")
        assert backend.store.leases.release(held) is False
        assert backend.store.leases.get(session) == successor

    def test_the_lease_of_work_is_over_after_its_block(self, backend: Bed, session: str) -> None:
        store = backend.store
        store.work.enqueue(session, "job")
        with store.work.hold(wait_s=0, heartbeat=False) as (held, claim):
            turn = store.turns.begin(held)
            turn.complete(claim)
        with backend.unchanged(session), pytest.raises(LeaseExpired, match="ended"):
            turn.commit()
        assert store.leases.get(session) is None
        assert [batch.claim for batch in store.work.list(session)] == [None]

    def test_a_thread_that_was_given_the_lease_meets_its_end(
        self, backend: Bed, session: str
    ) -> None:
        """Writers that go on past the block: what is in before the end stays, nothing comes after,
        and nobody holds the session then.
        """
        store, met, started = backend.store, [], threading.Barrier(3)

        def write(held: Held) -> None:
            started.wait()
            try:
                for n in range(10_000):
                    store.messages.append(session, user(f"{n}"), lease=held)
            except LeaseExpired as error:
                met.append(error)

        with store.leases.hold(session) as held:
            threads = [threading.Thread(target=write, args=(held,)) for _ in range(2)]
            for thread in threads:
                thread.start()
            started.wait()
            while backend.revision(session) < 5:
                pass
        for thread in threads:
            thread.join()
        assert [error.ended for error in met] == [True, True]
        assert store.leases.get(session) is None
        revision = backend.revision(session)
        with pytest.raises(LeaseExpired):
            store.messages.append(session, user("late"), lease=held)
        assert backend.revision(session) == revision
        with store.leases.hold(session, owner="bob", heartbeat=False) as next_one:
            assert next_one.fence == held.fence + 1
            with pytest.raises(LeaseHeld):
                store.messages.append(session, user("late"))
