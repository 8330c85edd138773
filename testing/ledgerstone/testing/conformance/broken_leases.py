"""Breaking a lease by force: which one, by whom, and never a newer one than was seen."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import user
from ledgerstone.errors import Conflict, Fenced, InvalidValue, LeaseMoved, SessionNotFound
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.leases import OnALeasedSession, take


class TestBreakingALease(OnALeasedSession):
    @pytest.mark.promise(203)
    def test_an_operator_breaks_what_is_there_and_learns_which(
        self, backend: Bed, session: str
    ) -> None:
        lease = take(backend)
        assert backend.store.leases.break_(session, by="ops", reason="stuck") == lease
        assert backend.store.leases.get(session) is None
        with backend.unchanged(session), pytest.raises(Fenced):
            backend.store.messages.append(session, user("late"), lease=lease)
        assert take(backend, "bob").fence > lease.fence + 1

    @pytest.mark.promise(203)
    def test_who_why_and_which_is_kept(self, backend: Bed, session: str) -> None:
        lease = take(backend)
        backend.store.leases.break_(session, by="ops", reason="stuck", fence=lease.fence)
        notes = backend.store.nodes.notes(session, ["ledger.lease"])["ledger.lease"]
        assert [note.body for note in notes.values()] == [
            {"by": "ops", "reason": "stuck", "owner": "ann", "fence": lease.fence}
        ]

    @pytest.mark.promise(203)
    def test_the_lease_with_that_fence_is_broken(self, backend: Bed, session: str) -> None:
        lease = take(backend)
        broken = backend.store.leases.break_(session, by="o", reason="r", fence=lease.fence)
        assert broken == lease
        assert backend.store.leases.get(session) is None

    @pytest.mark.promise(203)
    def test_a_newer_lease_than_the_one_that_was_seen_is_untouched(
        self, backend: Bed, session: str
    ) -> None:
        """The operator saw a stuck worker; by the time he acts, a healthy one has the session."""
        seen = take(backend, ttl_s=10)
        backend.clock.advance(11)
        healthy = take(backend, "bob")
        with backend.unchanged(session), pytest.raises(LeaseMoved, match=r"leases\.get") as caught:
            backend.store.leases.break_(session, by="ops", reason="stuck", fence=seen.fence)
        assert isinstance(caught.value, Conflict)
        told = (caught.value.session, caught.value.fence, caught.value.current)
        assert told == (session, seen.fence, healthy.fence)
        assert backend.store.leases.get(session) == healthy
        backend.store.messages.append(session, user("still mine"), lease=healthy)
        assert "ledger.lease" not in backend.store.nodes.notes(session, ["ledger.lease"])

    @pytest.mark.promise(203)
    def test_breaking_twice_breaks_once(self, backend: Bed, session: str) -> None:
        lease = take(backend)
        told: dict[str, Any] = {"by": "ops", "reason": "stuck", "fence": lease.fence}
        assert backend.store.leases.break_(session, **told) == lease
        assert backend.store.leases.break_(session, **told) is None
        assert take(backend, "bob").fence == lease.fence + 2

    @pytest.mark.promise(203)
    def test_the_holder_of_a_block_does_not_take_it_again(self, backend: Bed, session: str) -> None:
        with backend.store.leases.hold(session, heartbeat=False) as held:
            backend.store.leases.break_(session, by="ops", reason="stuck")
            with backend.unchanged(session), pytest.raises(Fenced):
                backend.store.messages.append(session, user("late"), lease=held)
        assert take(backend, "bob").fence == held.fence + 2

    def test_breaking_what_nobody_holds_does_nothing(self, backend: Bed, session: str) -> None:
        assert backend.store.leases.break_(session, by="ops", reason="none") is None
        assert backend.store.leases.break_(session, by="ops", reason="none", fence=7) is None
        assert take(backend).fence == 1

    def test_bad_input(self, backend: Bed, session: str) -> None:
        bad: Any
        for bad in ("1", -1, True, 1.0):
            with pytest.raises(InvalidValue, match="fence"):
                backend.store.leases.break_(session, by="o", reason="r", fence=bad)
        with pytest.raises(SessionNotFound):
            backend.store.leases.break_("nobody", by="o", reason="r", fence=1)
