"""What a successor finds after a worker died."""

from __future__ import annotations

import pytest

from ledgerstone import tool_call, user
from ledgerstone.errors import InvalidValue
from ledgerstone.records.leases import Lease
from ledgerstone.testing.bed import Bed


class TestLostSessions:
    def begin(self, backend: Bed, session: str, run: str = "") -> Lease:
        """A worker that has just begun a run."""
        backend.store.sessions.ensure(session, user="ada")
        lease = backend.store.leases.take(session, owner="w1", ttl_s=10)
        assert lease is not None
        turn = backend.store.turns.begin(lease, run_id=run or f"r-{session}")
        turn.run("running", agent="scribe")
        turn.user("hello")
        turn.commit()
        backend.clock.advance(0.1)
        return lease

    def lost(self, backend: Bed, limit: int = 100) -> list[str]:
        return [found.session for found in backend.store.runs.recover(limit=limit)]

    def test_a_run_is_lost_when_nobody_holds_its_session(self, backend: Bed) -> None:
        for session in ("b", "a", "c"):
            self.begin(backend, session)
        assert self.lost(backend) == []
        backend.clock.advance(11)
        backend.reopen()
        assert self.lost(backend) == ["b", "a", "c"]
        assert self.lost(backend, limit=2) == ["b", "a"]
        backend.store.leases.take("a", owner="w2")
        assert self.lost(backend) == ["b", "c"]
        backend.store.sessions.delete("b")
        backend.store.sessions.purge("c", keep_runs=True)
        assert self.lost(backend) == []
        backend.store.sessions.restore("b")
        assert self.lost(backend) == ["b"]

    def test_only_running_ones(self, backend: Bed) -> None:
        for session, status in (("a", "waiting"), ("b", "done")):
            lease = self.begin(backend, session)
            turn = backend.store.turns.begin(lease, run_id=f"r-{session}")
            turn.run(status)
            turn.commit(release=True)
        assert self.lost(backend) == []

    def test_one_entry_for_each_session(self, backend: Bed) -> None:
        self.begin(backend, "a", "r2")
        self.begin(backend, "a", "r1")
        backend.clock.advance(11)
        (found,) = backend.store.runs.recover()
        assert found.run is not None
        assert found.run.id == "r2"

    def test_everything_that_was_under_way(self, backend: Bed) -> None:
        lease = self.begin(backend, "a")
        store = backend.store
        store.work.enqueue("a", {"n": 1}, id="w1")
        store.work.claim(lease)
        turn = store.turns.begin(lease, run_id="r-a")
        turn.assistant([tool_call("pay", id="c1"), tool_call("mail", id="c2")])
        asked = turn.ask("c1")
        turn.run("running", agent="scribe")
        turn.commit()
        started = store.executions.start(lease, call_id="c2", tool="mail")
        before = store.sessions.recovery("a")
        assert before is not None
        assert before.lease is not None
        assert before.lease.fence == lease.fence
        backend.clock.advance(11)
        store = backend.reopen()
        (found,) = store.runs.recover()
        assert found == store.sessions.recovery("a")
        assert (found.session, found.lease) == ("a", None)
        assert found.run is not None
        assert (found.run.id, found.run.agent) == ("r-a", "scribe")
        assert [one.id for one in found.tickets] == [asked.id]
        assert [(one.id, one.status) for one in found.executions] == [(started.id, "unknown")]
        assert [batch.id for batch in found.claims] == ["w1"]
        assert found.needs == ["decide_executions", "resume_work", "wait_for_tickets"]

    def test_nothing_but_a_run(self, backend: Bed) -> None:
        self.begin(backend, "a")
        backend.clock.advance(11)
        (found,) = backend.store.runs.recover()
        assert found.needs == ["finish_run"]

    def test_another_tenant_sees_nothing(self, backend: Bed) -> None:
        self.begin(backend, "a")
        backend.clock.advance(11)
        other = backend.open("red")
        assert other.runs.recover() == []
        assert other.sessions.recovery("a") is None

    def test_a_session_at_rest(self, backend: Bed) -> None:
        backend.store.messages.append("a", user("x"), create=True)
        found = backend.store.sessions.recovery("a")
        assert found is not None
        assert (found.run, found.lease, found.needs) == (None, None, [])
        assert backend.store.sessions.recovery("nowhere") is None

    @pytest.mark.parametrize("limit", [0, -1, True, "1"])
    def test_bad_limits(self, backend: Bed, limit: int) -> None:
        with pytest.raises(InvalidValue) as caught:
            backend.store.runs.recover(limit=limit)
        assert caught.value.field == "limit"
