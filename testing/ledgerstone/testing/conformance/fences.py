"""Holding a session for the length of a block; fences that rise for ever."""

from __future__ import annotations

import pytest

from ledgerstone import user
from ledgerstone.errors import Fenced, LeaseExpired, LeaseHeld
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.leases import OnALeasedSession, take


class TestHolding(OnALeasedSession):
    def test_a_held_session_is_free_after_the_block(self, backend: Bed, session: str) -> None:
        store = backend.store
        with store.leases.hold(session, heartbeat=False) as held:
            assert store.leases.get(session) == held.lease
            store.messages.append(session, user("inside"), lease=held)
        assert store.leases.get(session) is None
        assert backend.texts(session)[-1] == "inside"

    def test_an_error_in_the_block_releases_too(self, backend: Bed, session: str) -> None:
        with (
            pytest.raises(ZeroDivisionError),
            backend.store.leases.hold(session, heartbeat=False),
        ):
            raise ZeroDivisionError
        assert backend.store.leases.get(session) is None

    @pytest.mark.promise(124)
    def test_each_hold_has_a_fresh_fence_also_for_the_same_owner(
        self, backend: Bed, session: str
    ) -> None:
        with backend.store.leases.hold(session, owner="ann", heartbeat=False) as first:
            pass
        with backend.store.leases.hold(session, owner="ann", heartbeat=False) as second:
            assert second.fence == first.fence + 1

    def test_a_session_held_by_another_is_lease_held_after_the_wait(
        self, backend: Bed, session: str
    ) -> None:
        take(backend, "bob")
        with (
            pytest.raises(LeaseHeld) as caught,
            backend.store.leases.hold(session, owner="ann", wait_s=0),
        ):
            pytest.fail("the block must not start")
        assert caught.value.owner == "bob"

    @pytest.mark.promise(107)
    def test_a_lapsed_hold_is_taken_again_when_nobody_wrote(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        with store.leases.hold(session, owner="ann", ttl_s=5, heartbeat=False) as held:
            before = held.fence
            backend.clock.advance(6)
            store.messages.append(session, user("late but fine"), lease=held)
            assert held.fence == before + 1
            lease = store.leases.get(session)
            assert lease is not None
            assert lease.fence == held.fence
        assert store.leases.get(session) is None
        assert backend.texts(session)[-1] == "late but fine"

    @pytest.mark.promise(107, 128)
    def test_a_lapsed_hold_does_not_write_over_somebody_else(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        with store.leases.hold(session, owner="ann", ttl_s=5, heartbeat=False) as held:
            backend.clock.advance(6)
            store.messages.append(session, user("meanwhile"))
            with pytest.raises(LeaseExpired):
                store.messages.append(session, user("blind"), lease=held)
        assert backend.texts(session)[-1] == "meanwhile"
        assert store.leases.get(session) is None

    @pytest.mark.promise(128)
    def test_a_hold_that_another_took_over_is_fenced(self, backend: Bed, session: str) -> None:
        store = backend.store
        with store.leases.hold(session, owner="ann", ttl_s=5, heartbeat=False) as held:
            backend.clock.advance(6)
            successor = take(backend, "bob")
            with backend.unchanged(session), pytest.raises(Fenced):
                store.messages.append(session, user("zombie"), lease=held)
        assert store.leases.get(session) == successor

    def test_leaving_the_block_never_releases_the_successor(
        self, backend: Bed, session: str
    ) -> None:
        with backend.store.leases.hold(session, owner="ann", ttl_s=5, heartbeat=False):
            backend.clock.advance(6)
            successor = take(backend, "bob")
        assert backend.store.leases.get(session) == successor


class TestFencesRiseForEver(OnALeasedSession):
    @pytest.mark.promise(124)
    def test_over_a_purge_and_a_new_session_of_the_same_id(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        first = take(backend)
        store.leases.release(first)
        second = take(backend)
        receipt = store.sessions.purge(session)
        assert (receipt.existed, receipt.fence) == (True, second.fence)
        made = store.sessions.create(id=session)
        assert made.incarnation == 2
        third = take(backend)
        assert third.fence == second.fence + 1
        with pytest.raises(Fenced):
            store.messages.append(session, user("from the dead"), lease=second)

    @pytest.mark.promise(124)
    def test_over_purge_reopening_and_creation_by_a_commit(
        self, backend: Bed, session: str
    ) -> None:
        lease = take(backend)
        backend.store.sessions.purge(session)
        store = backend.reopen()
        store.messages.append(session, user("again"), create=True)
        assert take(backend).fence == lease.fence + 1

    def test_over_two_purges_in_a_row(self, backend: Bed, session: str) -> None:
        store = backend.store
        fences = []
        for _ in range(3):
            fences.append(take(backend).fence)
            store.sessions.purge(session)
            store.sessions.create(id=session)
        assert fences == [1, 2, 3]
