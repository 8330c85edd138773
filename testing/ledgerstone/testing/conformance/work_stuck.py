"""Why does this session not move? Every reason, by name."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import assistant, tool_call
from ledgerstone.records.work import Stuck
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import OnASession, claimed, complete, take
from ledgerstone.testing.conformance.work_retries import bury

S = 1_000_000


def reasons(backend: Bed, session: str = "s") -> list[str]:
    found = backend.store.work.stuck(session)
    assert all(one.session == session and one.detail for one in found)
    return [one.reason for one in found]


def explained(backend: Bed, reason: str, session: str = "s") -> Stuck:
    return next(one for one in backend.store.work.stuck(session) if one.reason == reason)


def ask(backend: Bed, **how: Any) -> str:
    """A turn that ends with a question to a person; answers the ticket's id."""
    turn = backend.store.turns.begin("s")
    turn.add(assistant([tool_call("pay", {"eur": 9}, id="call-1")]))
    ticket = turn.ask("call-1", **how)
    turn.commit()
    return str(ticket.id)


class TestStuck(OnASession):
    def test_who_has_nothing_to_do_is_not_stuck(self, backend: Bed, session: str) -> None:
        assert backend.store.work.stuck(session) == []
        assert backend.store.work.stuck() == []
        assert backend.store.work.stuck("nowhere") == []
        take(backend)
        assert backend.store.work.stuck(session) == []

    def test_ready_means_that_no_worker_came(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1, id="w1")
        assert reasons(backend) == ["ready"]

    def test_somebody_has_the_session(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1, id="w1")
        lease = take(backend, owner="ann")
        assert reasons(backend)[0] == "leased"
        found = explained(backend, "leased")
        assert found.until_us == lease.expires_us
        assert "ann" in found.detail
        assert "ready" not in reasons(backend)

    def test_somebody_works_on_it(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1, id="w1")
        lease = take(backend)
        claim = claimed(backend, lease)
        assert reasons(backend)[:2] == ["leased", "claimed"]
        assert explained(backend, "claimed").ids == ["w1"]
        complete(backend, lease, claim, release=True)
        assert backend.store.work.stuck(session) == []

    def test_it_is_not_due_yet(self, backend: Bed, session: str) -> None:
        made = backend.store.work.enqueue(session, 1, id="w1", delay_s=30)
        assert reasons(backend) == ["delayed"]
        found = explained(backend, "delayed")
        assert (found.until_us, found.ids) == (made.available_us, ["w1"])
        backend.clock.advance(30)
        assert reasons(backend) == ["ready"]

    def test_a_person_has_to_decide(self, backend: Bed, session: str) -> None:
        ticket = ask(backend, expires_s=600)
        assert reasons(backend) == ["waiting_for_ticket"]
        assert explained(backend, "waiting_for_ticket").ids == [ticket]

    def test_a_tool_may_have_run(self, backend: Bed, session: str) -> None:
        lease = take(backend, ttl_s=10)
        backend.store.work.enqueue(session, 1, id="w1")
        started = backend.store.executions.start(lease, call_id="call-1", tool="pay")
        backend.clock.advance(10)
        assert reasons(backend) == ["unresolved_execution", "ready"]
        assert explained(backend, "unresolved_execution").ids == [started.id]

    def test_it_was_given_up(self, backend: Bed, session: str) -> None:
        dead = bury(backend, "w1")
        assert reasons(backend) == ["dead_letters"]
        assert explained(backend, "dead_letters").ids == [dead.id]
        backend.store.work.replay(dead)
        assert reasons(backend) == ["ready"]

    def test_the_session_is_deleted(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1)
        backend.store.sessions.delete(session)
        assert reasons(backend)[0] == "deleted"
        assert "ready" not in reasons(backend)
        backend.store.sessions.restore(session)
        assert reasons(backend) == ["ready"]

    def test_several_reasons_come_in_their_order(self, backend: Bed, session: str) -> None:
        bury(backend, "w1")
        backend.store.work.enqueue(session, 2, id="w2")
        backend.store.work.enqueue(session, 3, id="w3", delay_s=30)
        claimed(backend, take(backend))
        assert reasons(backend) == ["leased", "claimed", "delayed", "dead_letters"]

    def test_all_sessions_at_a_glance(self, backend: Bed, session: str) -> None:
        for name in ("a", "b", "c"):
            backend.clock.advance(1)
            backend.store.sessions.create(id=name)
            backend.store.work.enqueue(name, 1)
        take(backend, "a")
        bury(backend, "w1")
        found = [(one.session, one.reason) for one in backend.store.work.stuck()]
        assert sorted(found) == [
            ("a", "leased"),
            ("b", "ready"),
            ("c", "ready"),
            ("s", "dead_letters"),
        ]
        assert found[-1] == ("s", "dead_letters")
        assert found.index(("b", "ready")) < found.index(("c", "ready"))
        assert len(backend.store.work.stuck(limit=2)) == 2

    @pytest.mark.promise(193)
    def test_no_tenant_sees_those_of_another(self, backend: Bed, session: str) -> None:
        backend.store.work.enqueue(session, 1)
        other = backend.open("other")
        assert other.work.stuck() == []
        assert other.work.stuck(session) == []
