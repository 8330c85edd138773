"""What belongs to a session: its runs, and the turns and leases that can serve no other one."""

from __future__ import annotations

import pytest

from ledgerstone import user
from ledgerstone.errors import SessionBindingMismatch
from ledgerstone.records.leases import Lease
from ledgerstone.records.sessions import Session
from ledgerstone.testing.bed import Bed

__all__ = ["TestSessionRuns", "TestBinding"]


class TestSessionRuns:
    """The pointers a session keeps to its runs."""

    @pytest.mark.promise(3)
    def test_a_new_session_points_at_no_run(self, backend: Bed) -> None:
        assert pointers(backend, backend.store.sessions.create(id="s").id) == (None, None, None)

    @pytest.mark.promise(3)
    @pytest.mark.parametrize(
        ("status", "wanted"),
        [
            ("created", (None, "r1", "r1")),
            ("running", ("r1", "r1", "r1")),
            ("waiting", (None, "r1", "r1")),
            ("done", (None, None, "r1")),
        ],
    )
    def test_the_pointers_follow_the_status_of_the_run(
        self, backend: Bed, status: str, wanted: tuple[str | None, ...]
    ) -> None:
        with backend.store.turns.begin("s", run_id="r1", create=True) as turn:
            turn.run(status)
        backend.reopen()
        assert pointers(backend, "s") == wanted

    @pytest.mark.promise(3)
    def test_an_older_run_that_ends_leaves_the_pointers_to_the_newer_one(
        self, backend: Bed
    ) -> None:
        for run_id, status in (("r1", "running"), ("r2", "running"), ("r1", "done")):
            with backend.store.turns.begin("s", run_id=run_id, create=True) as turn:
                turn.run(status)
        assert pointers(backend, "s") == ("r2", "r2", "r1")

    @pytest.mark.promise(2, 3)
    def test_put_leaves_the_pointers_alone(self, backend: Bed) -> None:
        with backend.store.turns.begin("s", run_id="r1", create=True) as turn:
            turn.run("running")
        backend.store.sessions.put(Session(id="s", title="new"))
        assert pointers(backend, "s") == ("r1", "r1", "r1")


class TestBinding:
    """A turn and a lease belong to one session."""

    @pytest.mark.promise(43)
    def test_a_turn_can_not_be_committed_under_the_lease_of_another_session(
        self, backend: Bed
    ) -> None:
        lease = two_sessions(backend)
        turn = backend.store.turns.begin("s")
        turn.user("hello")
        with pytest.raises(SessionBindingMismatch) as refused:
            turn.commit(lease=lease)
        assert {refused.value.bound, refused.value.other} == {"s", "t"}
        assert "'s'" in str(refused.value)
        assert "'t'" in str(refused.value)
        assert backend.store.messages.count("s") == backend.store.messages.count("t") == 0

    @pytest.mark.promise(43)
    def test_a_write_can_not_use_the_lease_of_another_session(self, backend: Bed) -> None:
        lease = two_sessions(backend)
        with pytest.raises(SessionBindingMismatch):
            backend.store.messages.append("s", user("hello"), lease=lease)
        assert backend.store.messages.append("t", user("hello"), lease=lease)[0].seq == 1

    @pytest.mark.promise(43)
    def test_a_run_stays_with_its_session(self, backend: Bed) -> None:
        two_sessions(backend)
        with backend.store.turns.begin("s", run_id="r1") as turn:
            turn.run("running")
        other = backend.store.turns.begin("u", run_id="r1", create=True)
        other.user("hello")
        other.run("running")
        with pytest.raises(SessionBindingMismatch) as refused:
            other.commit()
        assert (refused.value.bound, refused.value.other) == ("s", "u")
        assert backend.store.messages.count("u") == 0
        assert backend.store.sessions.get("u") is None


def pointers(backend: Bed, session_id: str) -> tuple[str | None, ...]:
    session = backend.store.sessions.get(session_id)
    assert session is not None
    return (session.active_run, session.open_run, session.latest_run)


def two_sessions(backend: Bed) -> Lease:
    """Sessions "s" and "t", and a lease on "t"."""
    for name in ("s", "t"):
        backend.store.sessions.create(id=name)
    lease = backend.store.leases.take("t", owner="w")
    assert lease is not None
    return lease
